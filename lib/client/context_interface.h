// The interface that both ways to open a device have: in this process, and over the daemon's socket.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <uroce/error.h>
#include <uroce/types.h>
#include <uroce/verbs/device.h>
#include <uroce/verbs/parameters.h>
#include <uroce/verbs/queue_pair.h>

#include "message/pipe_wait.h"

namespace uroce::client {

class ChannelImpl;
class CqImpl;
class PdImpl;
class QpImpl;
class SrqImpl;
class XrcDomainImpl;

using message::Wake;
using QpSteps = std::span<const QueuePair::Step>;

/// An opened device. Objects keep it alive.
class ContextImpl : public std::enable_shared_from_this<ContextImpl> {
 public:
  virtual ~ContextImpl() = default;

  virtual const DeviceInfo& info() const = 0;
  virtual Result<std::vector<Gid>> gids() const = 0;
  virtual Result<bool> link_up() const = 0;
  virtual Result<uint64_t> clock_ns() const = 0;
  virtual Result<std::shared_ptr<PdImpl>> create_pd() = 0;
  virtual Result<std::shared_ptr<ChannelImpl>> create_channel() = 0;
  virtual Result<std::shared_ptr<CqImpl>> create_cq(uint32_t entries, std::shared_ptr<ChannelImpl> channel,
                                                    CqOptions options) = 0;
  virtual Result<std::shared_ptr<SrqImpl>> create_srq(const PdImpl& pd, uint32_t max_wr, uint32_t max_sge) = 0;
  virtual Result<std::shared_ptr<XrcDomainImpl>> open_xrc_domain(const XrcDomainInit& init) = 0;
  virtual Result<std::shared_ptr<SrqImpl>> create_xrc_srq(const PdImpl& pd, const XrcDomainImpl& domain,
                                                          const CqImpl& cq, uint32_t max_wr, uint32_t max_sge) = 0;
  virtual Result<std::shared_ptr<QpImpl>> create_xrc_target(const XrcDomainImpl& domain, const QpInit& init) = 0;
  virtual Result<std::shared_ptr<QpImpl>> open_xrc_target(const XrcDomainImpl& domain, uint32_t qpn) = 0;
  virtual Result<std::shared_ptr<QpImpl>> create_qp(const PdImpl& pd, const CqImpl& send_cq, const CqImpl& recv_cq,
                                                    const QpInit& init, const SrqImpl* srq, QpSteps steps) = 0;
  virtual int async_fd() const = 0;
  virtual std::optional<AsyncEvent> take_async_event() = 0;
  virtual std::vector<std::pair<std::string, uint64_t>> counters() const = 0;
  /// Polls the engines meanwhile where the calling thread runs them.
  virtual Wake wait_readable(int fd, std::chrono::nanoseconds timeout) = 0;
  virtual bool lost() { return false; }

  std::atomic<uint64_t> device_memory{0};  ///< bytes that DmImpl has
};

/// Calls `take` until it returns a value, waiting on `fd` between calls. nullopt after `timeout`, after a signal, and
/// when the daemon is gone.
template <class Take>
auto wait_for(ContextImpl& context, int fd, std::chrono::nanoseconds timeout, Take take) -> decltype(take()) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  while (true) {
    if (auto event = take()) return event;
    const bool for_ever = timeout == std::chrono::nanoseconds::max();
    const Wake woken = context.wait_readable(fd, for_ever ? timeout : timeout - (Clock::now() - start));
    if (woken == Wake::lost) return take();  // armed queues have a last event
    // Another thread may have taken the event that woke this one.
    if (woken != Wake::readable) return std::nullopt;
  }
}

}  // namespace uroce::client
