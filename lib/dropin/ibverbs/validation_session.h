// The validator of this process, with its lock and its output.
#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "dropin/ibverbs/objects.h"
#include "dropin/ibverbs/spinlock.h"
#include "validate/findings.h"
#include "validate/validator.h"

namespace uroce::dropin::validation {

/// How threads use one queue. The validator must hear of posts in the order in which the queue has them, so a thread
/// has `order` for a whole post, or from ibv_wr_start() to ibv_wr_complete().
struct QueueUse {
  QueueUse(bool ordered, bool promised) : order(ordered), one_thread(promised) {}
  Spinlock order;                  ///< before the queue's own lock, and never after the session's
  const bool one_thread;           ///< as the program promised
  std::atomic<pid_t> user{0};      ///< a thread
  std::atomic<bool> begun{false};  ///< between the start and the end of a list of calls
};

/// gettid(2), for which glibc 2.28 has no function.
inline pid_t this_thread() { return static_cast<pid_t>(syscall(SYS_gettid)); }

/// Takes the queue for this thread, and tells where another has it that must not. False where this thread has it
/// already, by the promise that no other has; else give it back by release().
bool take(QueueUse& use, const std::string& what);
void release(QueueUse& use);

class Session {
 public:
  static Session& get();

  void begin(const validate::Options& options);
  void after_fork();
  /// The last line.
  void end();
  std::mutex& mutex() { return mutex_; }
  /// Runs `call` with the validator, and tells what it found.
  template <class Call>
  void with(Call call) {
    validate::Found found;
    {
      const std::lock_guard lock(mutex_);
      found = call(*validator_);
    }
    for (const validate::Finding& one : found) tell(one);
  }
  void tell(const validate::Finding& finding);

  enum class Queue : uint8_t { send, receive, completions };
  static std::string no_object(const char* kind, const void* object);
  void add_queue(const void* object, Queue queue, bool ordered, bool one_thread);
  void remove_queues(const void* object);
  /// An object's queue. Null where this process has none, which was told: the call must not go on, because the object
  /// is destroyed, or has its memory in the parent alone.
  std::shared_ptr<QueueUse> find(const char* kind, const void* object, Queue queue);

 private:
  Session() = default;
  void write(const std::string& line) const;

  std::mutex mutex_;
  validate::Options options_;
  std::unique_ptr<validate::Validator> validator_;
  std::unique_ptr<validate::Validator> inherited_;  ///< of the parent, in a child of fork()
  std::unique_ptr<validate::Findings> findings_;
  using Place = std::pair<const void*, Queue>;
  std::map<Place, std::shared_ptr<QueueUse>> queues_;
};

inline void tell(validate::Misuse misuse, const std::string& text) { Session::get().tell({misuse, text}); }

/// Tells the validator what it finds nothing in.
void note(const auto& call) {
  Session::get().with([&](validate::Validator& validator) {
    call(validator);
    return validate::Found{};
  });
}

inline void append(validate::Found& to, validate::Found from) {
  to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

/// False where a datagram of the queue pair cannot have this handle. A null one is refused anyway.
bool check_ah(const ibv_qp& qp, const ibv_ah* ah);

/// The device of an object, as the validator tells them apart.
inline const void* device_of(ibv_context* context) { return of(context)->shared.get(); }

}  // namespace uroce::dropin::validation
