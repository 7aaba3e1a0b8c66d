// The queue pair and the completion queue of a stream, and the events that wake threads which wait for completions.
#pragma once

#include <rdma/rdma_verbs.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>

#include "dropin/rsocket/peer.h"
#include "dropin/rsocket/socket.h"

namespace uroce::dropin::rsocket {

/// The stream has a lock for completions, which poll() and arm() need. Values are 0, or -1 with errno, where nothing
/// else is said.
class Endpoint {
 public:
  /// The outcome of wait().
  enum class Wait : uint8_t { nothing, taken, interrupted, failed };

  /// Makes the objects on the id's device, and sets the real sizes.
  int make(rdma_cm_id* id, Sizes& sizes);
  /// The caller holds the lock for completions and event_mutex(). The id stays.
  void release();
  bool has_qp() const { return id_ != nullptr && id_->qp != nullptr; }
  /// It is made and not released.
  bool open() const { return cq_ != nullptr; }

  int post_receive();
  /// Writes the pieces, or no bytes, to the peer's memory. `message` is the immediate data, and comes back in
  /// message_of().
  int post(std::span<ibv_sge> pieces, ibv_wr_opcode opcode, uint32_t message, bool as_inline, Peer::Place place);
  /// Returns how many completions there were; less than 0 on failure.
  int poll(std::span<ibv_wc> done) { return ibv_poll_cq(cq_, static_cast<int>(done.size()), done.data()); }
  static bool is_send(const ibv_wc& done) { return done.wr_id >= kSent; }
  static uint32_t message_of(const ibv_wc& done) { return static_cast<uint32_t>(done.wr_id); }
  /// Flushes the posted requests: their completions wake sleeping threads.
  void flush();

  /// The next completion makes fd() readable.
  void arm() {
    armed_ = true;
    ibv_req_notify_cq(cq_, 0);
  }
  bool armed() const { return armed_; }
  int fd() const { return completions_->fd; }
  /// Waits for the event of arm(), for some seconds, and takes it, unless another thread has. `interrupted` and
  /// `failed` set errno.
  Wait wait();
  std::mutex& event_mutex() { return event_mutex_; }

 private:
  /// Marks the wr_id of a send; the low bits are its message.
  static constexpr uint64_t kSent = uint64_t{1} << 32;

  rdma_cm_id* id_ = nullptr;
  ibv_comp_channel* completions_ = nullptr;
  ibv_cq* cq_ = nullptr;
  std::mutex event_mutex_;
  std::atomic<bool> armed_{false};
  unsigned unacknowledged_ = 0;  ///< events, guarded by event_mutex_
};

}  // namespace uroce::dropin::rsocket
