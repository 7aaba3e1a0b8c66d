// Messages from some threads to one, for what happens once in a connection's life: never on the path of a command.
#pragma once

#include <atomic>
#include <mutex>
#include <utility>
#include <vector>

namespace uroce::nvmf {

/// The senders bound how many messages wait; the messages of one sender come out in its order.
template <class Message>
class Mailbox {
 public:
  /// Any thread. True for the first message that waits: the receiver may sleep. It has been told of the others.
  [[nodiscard]] bool put(Message message) {
    const std::scoped_lock lock(mutex_);
    messages_.push_back(std::move(message));
    return !waiting_.exchange(true, std::memory_order_release);
  }
  /// The receiver's thread; cheap. Whether messages have come.
  bool waiting() const { return waiting_.load(std::memory_order_acquire); }
  /// The receiver's thread: all that have come.
  std::vector<Message> take() {
    const std::scoped_lock lock(mutex_);
    waiting_.store(false, std::memory_order_relaxed);
    return std::exchange(messages_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<Message> messages_{};
  std::atomic<bool> waiting_{false};
};

}  // namespace uroce::nvmf
