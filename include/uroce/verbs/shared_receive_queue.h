// Receive queues of several queue pairs, and the XRC domains of some. <uroce/verbs.h> tells of ownership, threads and
// errors.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include <uroce/error.h>
#include <uroce/export.h>
#include <uroce/verbs/work_requests.h>

namespace uroce {

namespace client {
class SrqImpl;
class XrcDomainImpl;
}  // namespace client

/// A shared receive queue (ibv_create_srq(3)).
class UROCE_API SharedReceiveQueue {
 public:
  SharedReceiveQueue(SharedReceiveQueue&&) noexcept = default;
  SharedReceiveQueue& operator=(SharedReceiveQueue&&) noexcept = default;

  /// Unique among the device's shared receive queues that exist.
  uint32_t id() const;
  uint32_t max_wr() const;   ///< capacity in receives; at least the number asked for
  uint32_t max_sge() const;  ///< entries of each receive
  /// Posts one receive (ibv_post_srq_recv(3)). Returns 0, ENOMEM (queue full) or EINVAL (more entries than max_sge).
  int post_recv(const RecvRequest& request);
  /// Asks for one srq_limit_reached event when fewer than `limit` receives remain; 0 cancels it (ibv_modify_srq(3)).
  /// The engine checks the limit whenever it takes a receive. Errors: EINVAL (above max_wr()).
  Result<void> set_limit(uint32_t limit);
  /// Changes max_wr() to at least `max_wr` while queue pairs go on receiving (IBV_SRQ_MAX_WR of ibv_modify_srq(3)).
  /// Posted receives stay, in order. Not together with post_recv(). Errors: EINVAL (0, above the device's max_qp_wr,
  /// fewer than the receives posted, or below the limit that is set), ENOMEM: nothing has changed.
  Result<void> resize(uint32_t max_wr);

 private:
  friend class Context;
  explicit SharedReceiveQueue(std::shared_ptr<client::SrqImpl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<client::SrqImpl> impl_;
};

/// An XRC domain (ibv_open_xrcd(3); IBTA vol. 1, annex A14). The requests of an XRC initiator name a shared receive
/// queue of the domain that their target queue pair has, so that one connection serves many queues and programs.
/// Destroying the object closes the domain for this holder; shared receive queues and target queue pairs keep it.
class UROCE_API XrcDomain {
 public:
  XrcDomain(XrcDomain&&) noexcept = default;
  XrcDomain& operator=(XrcDomain&&) noexcept = default;

 private:
  friend class Context;
  explicit XrcDomain(std::shared_ptr<client::XrcDomainImpl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<client::XrcDomainImpl> impl_;
};

}  // namespace uroce
