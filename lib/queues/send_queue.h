// The application's end of a send queue. It takes no locks, allocates nothing and makes no virtual calls. One thread at
// a time.
#pragma once

#include <cerrno>
#include <cstdint>
#include <cstring>

#include <uroce/types.h>
#include <uroce/verbs/work_requests.h>

#include "base/wr_opcodes.h"
#include "queues/doorbell.h"
#include "queues/ring.h"

namespace uroce::queues {

class SendQueue {
 public:
  /// `cap`: as created. `flag` and the memory of `doorbell` must outlive this. `qpn` is the doorbell's token.
  SendQueue(RingPlace ring, QpType type, const QpCap& cap, DoorbellFlag* flag, DoorbellPoster doorbell, uint32_t qpn)
      : producer_(ring),
        type_(type),
        max_sge_(cap.max_send_sge),
        max_inline_(cap.max_inline_data),
        qpn_(qpn),
        flag_(flag),
        doorbell_(doorbell) {}

  /// Writes a request after those already put. Returns 0, ENOMEM (full) or EINVAL. The engine sees it after commit().
  int put(const SendRequest& request);
  /// Publishes the requests and rings the doorbell. Returns true when the engine sleeps and must be woken.
  bool commit() {
    if (pending_ == 0) return false;
    producer_.publish(pending_);
    room_ -= pending_;
    pending_ = 0;
    return ring();
  }
  /// Forgets what was put and not committed.
  void discard() { pending_ = 0; }
  /// Rings the queue pair's doorbell. Returns true when the engine sleeps and must be woken. Any thread.
  bool ring() { return doorbell_.ring(*flag_, qpn_); }

 private:
  static constexpr uint32_t kKnownFlags =
      (SendFlag::fence | SendFlag::signaled | SendFlag::solicited | SendFlag::inline_data).bits();

  bool has_room() {
    if (pending_ < room_) return true;
    room_ = producer_.room();  // reads the engine's cache line, about once for each ring full of posts
    return pending_ < room_;
  }
  /// Copies the inline payload to the bytes after `wqe`. Returns false when it does not fit or the opcode allows none.
  bool put_inline(SendWqe& wqe, const SendRequest& request) const;

  RingProducer producer_;
  uint32_t room_ = 0;     // slots known to be free when nothing was pending
  uint32_t pending_ = 0;  // put, not yet published
  QpType type_;
  uint32_t max_sge_;
  uint32_t max_inline_;
  uint32_t qpn_;
  DoorbellFlag* flag_;
  DoorbellPoster doorbell_;
};

inline int SendQueue::put(const SendRequest& request) {
  if (!offers(type_, request.opcode)) return EINVAL;
  const bool bare = is_local(request.opcode) || is_placement(request.opcode);
  if (bare && (!request.sges.empty() || request.flags.has(SendFlag::inline_data))) return EINVAL;
  if (request.opcode == WrOpcode::flush && !is_placement_flush_target(request.flush.placement, request.flush.scope)) {
    return EINVAL;
  }
  if (!has_room()) return ENOMEM;
  std::byte* slot = producer_.slot(pending_);
  auto& wqe = *reinterpret_cast<SendWqe*>(slot);
  if (request.flags.has(SendFlag::inline_data)) {
    if (!put_inline(wqe, request)) return EINVAL;
  } else {
    if (request.sges.size() > max_sge_ || !request.inline_data.empty()) return EINVAL;
    wqe.num_sge = static_cast<uint8_t>(request.sges.size());
    wqe.inline_length = 0;
    auto* sges = reinterpret_cast<Sge*>(slot + sizeof(SendWqe));
    for (std::size_t i = 0; i < request.sges.size(); ++i) sges[i] = request.sges[i];
  }
  wqe.wr_id = request.wr_id;
  wqe.flags = request.flags.bits() & kKnownFlags;
  wqe.opcode = static_cast<uint8_t>(request.opcode);
  wqe.imm_or_key = request.imm_or_key;
  wqe.rkey = request.rkey;
  wqe.remote_addr = request.remote_addr;
  wqe.remote_srqn = request.remote_srqn;
  if (type_ == QpType::ud) {
    wqe.ud = {request.ah, request.remote_qpn, request.remote_qkey, 0};
  } else if (request.opcode == WrOpcode::bind_mw) {
    wqe.imm_or_key = request.bind.rkey;
    wqe.rkey = request.bind.lkey;
    wqe.remote_addr = request.bind.addr;
    wqe.bind = {request.bind.length, request.bind.access.bits(), 0};
  } else if (request.opcode == WrOpcode::flush) {
    wqe.placement_flush = {request.flush.length, request.flush.placement.bits(),
                           static_cast<uint32_t>(request.flush.scope), 0};
  } else {
    wqe.atomic.compare_add = request.compare_add;
    wqe.atomic.swap = request.swap;
  }
  ++pending_;
  return 0;
}

inline bool SendQueue::put_inline(SendWqe& wqe, const SendRequest& request) const {
  if (is_read_or_atomic(request.opcode)) return false;
  auto* out = reinterpret_cast<std::byte*>(&wqe) + sizeof(SendWqe);
  uint64_t length = request.inline_data.size();
  if (request.sges.empty()) {
    if (length > max_inline_) return false;
    if (length != 0) std::memcpy(out, request.inline_data.data(), length);
  } else {
    if (length != 0) return false;
    for (const Sge& sge : request.sges) {
      if (length + sge.length > max_inline_) return false;
      // ibv_post_send(3): inline entries are addresses of this process, and their keys are ignored.
      // NOLINTNEXTLINE(performance-no-int-to-ptr): that is what an Sge holds
      if (sge.length != 0) std::memcpy(out + length, reinterpret_cast<const void*>(sge.addr), sge.length);
      length += sge.length;
    }
  }
  wqe.num_sge = 0;
  wqe.inline_length = static_cast<uint16_t>(length);
  return true;
}

}  // namespace uroce::queues
