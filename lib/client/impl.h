// Behind the public handles: control's objects, and the application's ends of their queues.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

#include <uroce/verbs.h>

#include "client/cq_poller.h"
#include "client/recv_queue.h"
#include "client/send_queue.h"
#include "control/session.h"

namespace uroce::client {

class PdImpl {
 public:
  std::shared_ptr<control::Pd> pd;
};

class MrImpl {
 public:
  std::shared_ptr<control::Region> region;
};

class AhImpl {
 public:
  std::shared_ptr<control::AddressHandle> ah;
};

class ChannelImpl {
 public:
  std::shared_ptr<control::Channel> channel;
};

class CqImpl {
 public:
  explicit CqImpl(std::shared_ptr<control::Cq> cq);
  Result<void> arm(bool solicited_only);

  CqPoller poller;
  std::shared_ptr<control::Cq> cq;
};

class SrqImpl {
 public:
  explicit SrqImpl(std::shared_ptr<control::Srq> srq);

  RecvQueue queue;
  std::shared_ptr<control::Srq> srq;
};

class QpImpl {
 public:
  explicit QpImpl(std::shared_ptr<control::Qp> qp);

  int post_send(const SendRequest& request) {
    if (!may_send()) return EINVAL;
    if (const int error = send_queue_.put(request); error != 0) return error;
    if (send_queue_.commit()) wake();
    return 0;
  }
  std::size_t post_send(std::span<const SendRequest> requests, int* error);
  int post_recv(const RecvRequest& request) {
    // With an SRQ the queue takes no entry; in RESET nothing is posted (IBTA vol. 1, 10.3.1.1).
    if (!has_recv_queue_ || state() == QpState::reset) return EINVAL;
    if (const int error = recv_queue_.post(request); error != 0) return error;
    if (recv_queue_.wants_doorbell() && send_queue_.ring()) wake();
    return 0;
  }
  Result<void> modify(const QpAttr& attr, QpAttrMask mask);
  const control::Qp& qp() const { return *qp_; }
  control::Qp& qp() { return *qp_; }

 private:
  QpState state() const { return state_.load(std::memory_order_relaxed); }
  bool may_send() const { return state() >= QpState::rts; }
  void wake();

  // The state of the last modify that succeeded, as libibverbs' providers keep it: the engine's own moves (to SQE or
  // ERROR) take posts as before, and flush them.
  std::atomic<QpState> state_{QpState::reset};
  bool has_recv_queue_;
  SendQueue send_queue_;
  RecvQueue recv_queue_;
  std::shared_ptr<control::Qp> qp_;
};

class ContextImpl {
 public:
  explicit ContextImpl(std::shared_ptr<control::Session> opened)
      : session(std::move(opened)), info(session->device()->info()) {}

  std::shared_ptr<control::Session> session;
  DeviceInfo info;
};

/// What `take` gives within `timeout`, waiting on `fd` between tries.
template <class Take>
auto wait_for(control::Device& device, int fd, std::chrono::nanoseconds timeout, Take take) -> decltype(take()) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  while (true) {
    if (auto event = take()) return event;
    // Another thread may have taken what woke this one.
    if (!device.wait_readable(fd, timeout - (Clock::now() - start))) return std::nullopt;
  }
}

}  // namespace uroce::client
