// The neighbourhood of a port beside the kernel: the kernel's addresses, routes and neighbours of the port's interface,
// followed as they change. The kernel alone asks and answers on the link.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "net/kernel_tables.h"
#include "pmd_glue/kernel_netlink.h"
#include "pmd_glue/neighbourhood.h"
#include "pmd_glue/waker.h"

namespace uroce::glue {

class KernelNeighbourhood final : public Neighbourhood {
 public:
  /// Reads the kernel's tables. `service` wakes the thread that calls step(). All references outlive this. Errors:
  /// EINVAL (the port has no interface of the kernel), and the system's.
  static Result<std::unique_ptr<KernelNeighbourhood>> open(Port& port, Waker& service, const TscClock& clock);

  const std::string& interface() const { return interface_.name; }
  bool hears_of_link() const override { return port_.is_kernel_interface(); }
  /// Any thread: the interface's addresses now, in the order in which a new GID table has them.
  std::vector<Gid> addresses();
  /// `changed` gets all addresses whenever they change, on the service thread and without a lock. When it returns
  /// false, it is called again a little later. Set it before the first step().
  void set_addresses_changed(std::function<bool(std::span<const Gid>)> changed) {
    addresses_changed_ = std::move(changed);
  }

  /// The kernel has seen the frame as well.
  bool deliver(uint32_t, std::span<const std::byte>) override { return true; }
  FrameRing* outgoing() override { return nullptr; }
  std::optional<EthAddr> next_hop(const Gid& dgid) override;
  void join(const Gid& group) override;
  void leave(const Gid& group) override;
  Result<Gid> source_for(const Gid& dgid) override;
  void step(bool announce) override;
  Nanos next_deadline() override;
  std::vector<std::pair<std::string, uint64_t>> counters() const override;

 private:
  KernelNeighbourhood(Port& port, Waker& service, const TscClock& clock, net::LinkIdentity interface,
                      std::unique_ptr<KernelNetlink> netlink);
  /// The kernel bounds what it resolves, and a user can have it resolve addresses without us, too.
  Result<Hop> begin_resolve(const Gid& dgid, uint32_t user) override;
  Result<Gid> ask(const Gid& dgid);
  std::optional<EthAddr> look_up(const Gid& hop) override;
  bool given_up(const Gid& hop) override;
  /// The lock is held.
  void receive();
  /// The lock is held. An interface that went away may have come back as another.
  void follow_interface();
  void tell_of_link(const net::LinkNews& link) const;
  // Service thread, without the lock.
  void redirect_moved();
  void follow_groups();
  void follow_addresses();

  net::LinkIdentity interface_;  ///< its index is guarded by mutex_
  uint32_t interface_returns_;   ///< service thread: those that have been followed
  // Service thread.
  std::function<bool(std::span<const Gid>)> addresses_changed_;
  std::map<Gid, EthAddr> moved_;  ///< changes that redirect() has not taken yet
  uint64_t told_generation_ = 0;  ///< of the addresses that addresses_changed_ has taken
  std::vector<Gid> told_;
  Nanos addresses_due_ = kNever;

  std::mutex mutex_;  ///< guards the members below
  std::unique_ptr<KernelNetlink> netlink_;
  net::KernelTables tables_;
  std::map<Gid, uint32_t> groups_;    ///< how often each is joined
  uint64_t groups_generation_ = 0;    ///< counts changes of groups_
  uint64_t received_generation_ = 0;  ///< generation of groups_ that the port receives
};

}  // namespace uroce::glue
