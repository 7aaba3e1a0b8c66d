// A port's neighbours: who answers for its addresses, and the Ethernet addresses that packets go to. A port of its own
// asks and answers on the link (own_neighbourhood.h); one beside the kernel leaves that to the kernel
// (kernel_neighbourhood.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <uroce/error.h>
#include <uroce/types.h>

#include "base/time.h"
#include "pmd_glue/clock.h"
#include "pmd_glue/frame_ring.h"
#include "pmd_glue/port.h"
#include "pmd_glue/waker.h"
#include "transport/datagram/address_handles.h"

namespace uroce::glue {

class Neighbourhood {
 public:
  virtual ~Neighbourhood() = default;
  Neighbourhood(const Neighbourhood&) = delete;
  Neighbourhood& operator=(const Neighbourhood&) = delete;

  /// The thread of engine `engine`: a received frame that is not RoCE. False when the service thread is too far behind;
  /// the frame is then lost.
  virtual bool deliver(uint32_t engine, std::span<const std::byte> frame) = 0;
  /// Frames to send; consumed by the thread of engine 0. nullptr when there are never any.
  virtual FrameRing* outgoing() = 0;
  /// `redirect` is called when neighbours change their Ethernet address, on the service thread and without a lock. When
  /// it returns false, it is called again a little later. Set it before the first step().
  void set_redirect(std::function<bool(const transport::NextHop&)> redirect) { redirect_ = std::move(redirect); }

  /// Any thread: see control::DeviceHost::resolve. Calls `wait_step` while it waits.
  template <class WaitStep>
  Result<EthAddr> resolve(const Gid& dgid, uint32_t user, Nanos timeout, WaitStep&& wait_step) {
    auto hop = begin_resolve(dgid, user);
    for (const Nanos until = clock_.now() + timeout;;) {
      if (!hop) return std::unexpected(hop.error());
      if (auto mac = look_up(hop->gid)) return *mac;
      const bool over = clock_.now() >= until;
      if (!hop->asked && over) return no_turn(dgid, user);
      if (hop->asked && (over || given_up(hop->gid))) return no_answer(dgid, hop->gid);
      wait_step();
      if (!hop->asked) hop = begin_resolve(dgid, user);
    }
  }

  /// Any thread: the Ethernet address of the next hop to `dgid`, if known.
  virtual std::optional<EthAddr> next_hop(const Gid& dgid) = 0;
  /// Any thread. Routers and switches are told soon. Call leave() once for each join().
  virtual void join(const Gid& group) = 0;
  virtual void leave(const Gid& group) = 0;
  /// Any thread: see control::DeviceHost::source_for.
  virtual Result<Gid> source_for(const Gid& dgid) = 0;

  /// Service thread: does what is due. `announce`: the link has come up.
  virtual void step(bool announce) = 0;
  /// Whether each change of the port's link wakes the service thread.
  virtual bool hears_of_link() const { return false; }
  /// Service thread: when step() must run even if nothing wakes the thread.
  virtual Nanos next_deadline() = 0;

  virtual std::vector<std::pair<std::string, uint64_t>> counters() const = 0;

 protected:
  /// All references outlive this.
  Neighbourhood(Port& port, Waker& service, const TscClock& clock) : port_(port), service_(service), clock_(clock) {}

  struct Hop {
    Gid gid{};
    bool asked = true;  ///< false: too many other addresses are being resolved for the user
  };
  /// Finds the next hop, and begins to resolve it unless it is known. Errors: ENETUNREACH.
  virtual Result<Hop> begin_resolve(const Gid& dgid, uint32_t user) = 0;
  virtual std::optional<EthAddr> look_up(const Gid& hop) = 0;
  virtual bool given_up(const Gid& hop) = 0;

  /// Service thread: false when it must be tried again at redirect_due().
  bool redirect(const transport::NextHop& next_hop);
  Nanos redirect_due() const { return redirect_due_; }
  Error at_port(const Error& error) const;
  std::unexpected<Error> no_source(const Gid& dgid) const;

  Port& port_;
  Waker& service_;  ///< the service thread's
  const TscClock& clock_;

 private:
  Result<EthAddr> no_answer(const Gid& dgid, const Gid& hop) const;
  Result<EthAddr> no_turn(const Gid& dgid, uint32_t user) const;

  // Service thread.
  std::function<bool(const transport::NextHop&)> redirect_;
  Nanos redirect_due_ = kNever;
};

}  // namespace uroce::glue
