// A port's slow path. Workers pass everything that is not RoCE to the service thread, and its answers come back.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include <uroce/error.h>
#include <uroce/types.h>

#include "base/counter.h"
#include "net/memberships.h"
#include "net/neighbours.h"
#include "pmd_glue/clock.h"
#include "pmd_glue/frame_ring.h"
#include "pmd_glue/port.h"
#include "pmd_glue/waker.h"
#include "transport/datagram/address_handles.h"

namespace uroce::glue {

class Neighbourhood {
 public:
  /// `service` wakes the thread that calls step(). All references outlive this.
  Neighbourhood(Port& port, uint16_t vlan, net::AddressTable table, uint32_t engines, Waker& service,
                const TscClock& clock, uint64_t seed);

  /// The thread of engine `engine`. False when the service thread is too far behind; the frame is then lost.
  bool deliver(uint32_t engine, std::span<const std::byte> frame);
  /// Frames to send; consumed by the thread of engine 0.
  FrameRing& outgoing() { return outgoing_; }
  /// `redirect` is called when neighbours change their Ethernet address, on the service thread and without a lock. When
  /// it returns false, it is called again a little later. Set it before the first step().
  void set_redirect(std::function<bool(const transport::NextHop&)> redirect) { redirect_ = std::move(redirect); }
  /// Wakes the thread of engine 0 when there are frames to send. Set it before the first frame.
  void set_sender(Waker* sender) { sender_ = sender; }

  /// Any thread: see control::DeviceHost::resolve. Calls `wait_step` while it waits.
  template <class WaitStep>
  Result<EthAddr> resolve(const Gid& dgid, Nanos timeout, WaitStep&& wait_step) {
    auto hop = begin_resolve(dgid);
    if (!hop) return std::unexpected(hop.error());
    for (const Nanos until = clock_.now() + timeout;;) {
      if (auto mac = look_up(*hop)) return *mac;
      if (clock_.now() >= until || given_up(*hop)) return no_answer(dgid, *hop);
      wait_step();
    }
  }

  /// Any thread: replaces addresses and gateways. The next step() announces them on the link.
  void set_table(net::AddressTable table);
  /// Any thread: the Ethernet address of the next hop to `dgid`, if known.
  std::optional<EthAddr> next_hop(const Gid& dgid);
  /// Any thread. The next step() sends the reports. Call leave() once for each join().
  void join(const Gid& group);
  void leave(const Gid& group);
  /// Any thread: see control::DeviceHost::source_for.
  Result<Gid> source_for(const Gid& dgid);

  /// Service thread: handles received frames, repeats requests, ages entries. With `announce` it announces our
  /// addresses first.
  void step(bool announce);
  /// Service thread: when step() must run even if no frame arrives.
  Nanos next_deadline();

  std::vector<std::pair<std::string, uint64_t>> counters() const;

 private:
  Result<Gid> begin_resolve(const Gid& dgid);
  std::optional<EthAddr> look_up(const Gid& hop);
  bool given_up(const Gid& hop);
  Result<EthAddr> no_answer(const Gid& dgid, const Gid& hop) const;
  void send(std::span<const std::byte> frame);
  void receive(std::span<const std::byte> frame, Nanos now);
  void run(bool announce);
  net::AddressTable table_of_now();
  void tell_of_changes();
  void tell_of_conflicts(std::span<const net::NeighbourAddress> conflicts) const;

  Port& port_;
  const uint16_t vlan_;
  Waker& service_;
  const TscClock& clock_;
  Waker* sender_ = nullptr;
  std::vector<std::unique_ptr<FrameRing>> incoming_;  ///< by engine
  FrameRing outgoing_;
  Counter send_lost_;
  // Service thread.
  std::function<bool(const transport::NextHop&)> redirect_;
  std::map<Gid, EthAddr> moved_;  ///< changes that redirect_ has not taken yet
  Nanos redirect_due_ = kNever;

  std::mutex mutex_;  ///< guards the members below and the producer's end of outgoing_
  net::Neighbours neighbours_;
  net::Memberships memberships_;
  bool announce_ = false;                   ///< at the next step
  uint64_t heard_generation_ = UINT64_MAX;  ///< generation of memberships_ that the port receives
};

}  // namespace uroce::glue
