// Behind the handles of queue pairs and of receive rules: the application's side of the queues, and what both ways to
// open a device offer for them.
#pragma once

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include <uroce/error.h>
#include <uroce/flow.h>
#include <uroce/types.h>
#include <uroce/verbs/queue_pair.h>
#include <uroce/verbs/work_requests.h>

#include "queues/doorbell.h"
#include "queues/place.h"
#include "queues/recv_queue.h"
#include "queues/send_queue.h"

namespace uroce::control {
class ControlQp;
}  // namespace uroce::control

namespace uroce::client {

class ContextImpl;
class DaemonQp;

class FlowImpl {
 public:
  virtual ~FlowImpl() = default;
  virtual Result<FlowCounters> counters() const = 0;
};

struct QpParts {
  uint32_t qpn = 0;
  QpType type = QpType::rc;
  QpCap cap{};
  queues::QpPlace place{};
  queues::DoorbellPoster doorbell{};
};

/// Of an XRC target, which has no queues.
inline constexpr QpCap kNoQueues{
    .max_send_wr = 0, .max_recv_wr = 0, .max_send_sge = 0, .max_recv_sge = 0, .max_inline_data = 0};

class QpImpl {
 public:
  QpImpl(const ContextImpl& context, const QpParts& parts);
  virtual ~QpImpl() = default;

  int post_send(const SendRequest& request) {
    if (!may_send()) return refusal(EINVAL);
    if (const int error = send_queue_.put(request); error != 0) return refusal(error);
    if (send_queue_.commit()) wake();
    return 0;
  }
  std::size_t post_send(std::span<const SendRequest> requests, int* error);
  int post_all(std::span<const SendRequest> requests);
  int post_recv(const RecvRequest& request) {
    // A queue pair with an SRQ has no receive queue; in RESET no posts are allowed (IBTA vol. 1, 10.3.1.1).
    if (!has_recv_queue_ || state() == QpState::reset) return refusal(EINVAL);
    if (const int error = recv_queue_.post(request); error != 0) return refusal(error);
    if (recv_queue_.wants_doorbell() && send_queue_.ring()) wake();
    return 0;
  }
  Result<void> modify(std::span<const QueuePair::Step> steps);
  /// The steps have succeeded.
  void note(std::span<const QueuePair::Step> steps);
  /// The connection manager moves the queue pair to `state`, or has done so. Posting takes that into account at once.
  void note(QpState state) { state_.store(state, std::memory_order_relaxed); }
  virtual Result<QpAttr> query() const = 0;
  virtual Result<void> attach_multicast(const Gid& group) = 0;
  virtual Result<void> detach_multicast(const Gid& group) = 0;
  /// A rule for the queue pairs of `table`, all of one context, of which this is the first.
  virtual Result<std::shared_ptr<FlowImpl>> create_flow(std::span<const QpImpl* const> table, const FlowRule& rule,
                                                        const RxHash& hash) = 0;
  uint32_t qpn() const { return parts_.qpn; }
  QpType type() const { return parts_.type; }
  const QpCap& cap() const { return parts_.cap; }

  // One of the two returns something. The connection manager must be of the same.
  virtual const DaemonQp* in_daemon() const { return nullptr; }
  virtual std::shared_ptr<control::ControlQp> in_process() const { return nullptr; }

  const ContextImpl* owner;

 protected:
  virtual Result<void> change(std::span<const QueuePair::Step> steps) = 0;
  /// Wakes the sleeping engine.
  virtual void wake() = 0;
  /// Whether the daemon is gone, as the kernel says.
  virtual bool lost() const { return false; }
  std::atomic<QpState>& state_for_posts() { return state_; }

 private:
  QpState state() const { return state_.load(std::memory_order_relaxed); }
  bool may_send() const { return state() >= QpState::rts; }
  int refusal(int error) const { return lost() ? EIO : error; }

  QpParts parts_;
  // The state of the last successful modify, as libibverbs' providers keep it. It does not follow the engine's own
  // moves to SQE or ERROR: posts then still succeed, and the engine flushes them.
  std::atomic<QpState> state_{QpState::reset};
  bool has_recv_queue_;
  queues::SendQueue send_queue_;
  queues::RecvQueue recv_queue_;
};

}  // namespace uroce::client
