// A device: one port's objects and the engines that serve them.
//
// pmd_glue creates one per port, runs its engines, and implements the calls that need the port (DeviceHost).
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <uroce/engine_settings.h>
#include <uroce/error.h>
#include <uroce/types.h>
#include <uroce/verbs/device.h>

#include "base/peer_list.h"
#include "base/secret.h"
#include "control/device_host.h"
#include "control/device_limits.h"
#include "control/engine_runner.h"
#include "control/event_router.h"
#include "control/object_registry.h"
#include "control/queue_memory.h"
#include "memory/region_table.h"
#include "transport/engine/engine.h"
#include "wire/packet.h"

namespace uroce::control {

class CompletionRules;

struct DeviceConfig {
  std::string name{};
  std::string driver{};
  EthAddr mac{};
  std::vector<Gid> gids{};         ///< the first table; see Device::gids()
  std::string kernel_interface{};  ///< see DeviceInfo
  int vlan = 0;
  PeerList peers{};  ///< of datagrams that it takes; its own addresses besides
  Mtu max_path_mtu = Mtu::mtu1024;
  uint32_t ethernet_mtu = 1500;  ///< bytes behind the Ethernet header and tag of a frame
  uint32_t engines = 1;          ///< 1..64
  EngineSettings settings{};
  Secret seed = 0;                          ///< for keys, first QPNs, and other numbers that peers must not guess
  uint32_t window_packets = 256;            ///< transport::EngineConfig::window_packets
  uint32_t read_window_packets = 1u << 22;  ///< per queue pair, transport::EngineConfig::read_window_packets
  Nanos peer_delay{0};                      ///< see transport::EngineConfig
  std::chrono::nanoseconds engine_timeout = kEngineTimeout;
  std::vector<transport::Tape*> tapes{};  ///< by engine, and outlive it; none where nothing is recorded
};

/// The route of a queue pair's packets.
struct PeerRoute {
  wire::Route route;
  bool loopback = false;  ///< the peer's GID is one of this device
};

class Device {
 public:
  /// Makes the engines, which the host then polls; DeviceSession::open() opens it. `host` must live until shut_down()
  /// or the last reference to the device, sessions and their objects included. Errors: EINVAL naming the setting.
  static Result<std::shared_ptr<Device>> create(DeviceConfig config, DeviceHost& host);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  // --- The host -------------------------------------------------------------------------------------------------

  transport::Engine& engine(uint32_t index) { return runner_.engine(index); }
  uint32_t engines() const { return runner_.count(); }
  /// Low QPN bits that name the engine; a frame for `qpn` belongs to engine (qpn & (2^index_bits - 1)).
  uint32_t index_bits() const { return index_bits_; }
  /// Gives connected queue pairs and address handles a neighbour's new Ethernet address. Any thread; does not wait. On
  /// false, call again a little later.
  bool redirect(const transport::NextHop& next_hop);
  /// Sets the port's addresses, which may be none. An address that stays keeps its entry in the table. A removed
  /// address leaves its entry empty (a zero GID), and gets it back when it is added again. Every session gets an event.
  /// Queue pairs and address handles with a removed address keep working, because they have their route. Errors:
  /// EINVAL, ENOMEM (more than 256), ENODEV, ETIMEDOUT.
  Result<void> set_gids(std::span<const Gid> wanted);
  /// The same without waiting, for at most 256 addresses. On false, call again a little later.
  bool try_set_gids(std::span<const Gid> wanted);
  /// For faults on purpose: of the addresses that the port has, now or later, `gone` leaves some out of the table, as
  /// if set_gids() had taken them away; nullptr leaves out none. Errors: as set_gids().
  Result<void> leave_out_gids(std::function<bool(const Gid&)> gone);
  /// Reports a link change to every session.
  void report_link(bool up);
  /// The port's card has gone for good.
  void report_gone();
  /// To be called after the last poll of the engines and before the host goes. Objects of applications
  /// stay valid: their calls fail with ENODEV, and they can be destroyed.
  void shut_down();
  /// Destroys the objects whose engine did not answer when they were destroyed, if all engines answer now. Returns how
  /// many are left. Waits for no engine that is stuck; call it again. The caller does not hold the lock.
  std::size_t release_late();

  // --- Any thread -----------------------------------------------------------------------------------------------

  const DeviceConfig& config() const { return config_; }
  DeviceInfo info() const;
  /// The GID table now; the zero GID where an entry is empty.
  std::vector<Gid> gids() const;
  /// The latest address of each entry: those that the port has, and those that it had.
  std::vector<Gid> former_gids();
  /// Lets each address of the port have the entry that it has in another daemon's former_gids(). No program has the
  /// device open. Errors: EINVAL, and those of set_gids().
  Result<void> adopt_gids(const std::vector<Gid>& former);
  /// Errors: ENODEV.
  Result<bool> link_up() const;
  /// How often the link went down. Any thread.
  uint64_t link_downs() const { return link_downs_.load(std::memory_order_relaxed); }
  Result<Nanos> clock() const;
  /// Engine counters by name, summed over the engines; received frames dropped as "drop_" + reason.
  std::vector<std::pair<std::string, uint64_t>> counters() const;
  /// The peers that guessed numbers of the engines, in address order. Waits for the engines. Errors: ETIMEDOUT.
  Result<std::vector<PeerGuesses>> guesses();
  /// How many guesses there were. Cheap.
  uint64_t guess_count() const;
  /// See DeviceHost.
  Result<Gid> source_for(const Gid& dgid) const;
  /// Whether the next hop from `sgid` to `dgid` is known. Where it is not, asks the network without waiting for the
  /// reply, on behalf of `user` (transport::Owner). Errors: EHOSTUNREACH (not known, or not yet), ENETUNREACH, EINVAL
  /// (families mixed), ENODEV.
  Result<void> probe(const Gid& sgid, const Gid& dgid, uint32_t user);
  /// See DeviceHost::keeps_up().
  bool keeps_up() const { return runner_.host().keeps_up(); }
  /// Memory windows bound to the region of `key` now; 0 when there is none.
  uint32_t bound_windows(memory::Key key) const { return objects_.keys().bound_windows(key); }
  void wake(uint32_t engine) { runner_.wake(engine); }
  /// See DeviceHost.
  Result<int> wake_descriptor(uint32_t engine);
  /// Waits until `fd` is readable. Polls the engines meanwhile where the calling thread runs them. False on timeout.
  bool wait_readable(int fd, std::chrono::nanoseconds timeout);

  // --- The objects' create and destroy calls ---------------------------------------------------------------------

  EngineRunner& runner() { return runner_; }
  ObjectRegistry& objects() { return objects_; }
  EventRouter& events() { return events_; }
  /// Errors: ENODEV (shut down).
  Result<void> check_alive() const;
  /// May query the network; the caller holds no lock.
  Result<PeerRoute> resolve(const AddressVector& av, uint32_t user, std::chrono::nanoseconds timeout);
  /// Updates a resolved address: a neighbour may have changed since resolve(). The caller holds the control lock.
  void refresh(PeerRoute& peer) const;
  /// Of faults that are made on purpose (hold_completions()); nullptr: there are none. The caller holds the lock.
  CompletionRules* completion_rules() const { return completion_rules_; }
  void set_completion_rules(CompletionRules* rules) { completion_rules_ = rules; }
  /// A new object's engine. The caller holds the lock.
  uint32_t choose_engine() { return objects_.choose_engine(engines()); }

 private:
  Device(DeviceConfig config, DeviceHost& host, uint32_t index_bits);
  bool is_ours(const Gid& gid) const;
  /// Whether the table changed. The caller holds the control lock.
  Result<bool> change_gids(std::span<const Gid> wanted);
  /// The same, and tells engines and sessions.
  Result<void> put_gids(std::span<const Gid> wanted);
  /// The table without its empty entries.
  std::vector<Gid> used_gids() const;

  DeviceConfig config_;
  uint32_t index_bits_;
  mutable std::mutex gids_mutex_;
  std::vector<Gid> gids_;  // guarded by gids_mutex_
  // Guarded by the control lock.
  std::vector<Gid> former_;                     // the last address of each entry
  std::vector<Gid> addresses_;                  // of the port
  std::function<bool(const Gid&)> left_out_{};  // of these
  ObjectRegistry objects_;
  EventRouter events_;
  std::atomic<uint64_t> link_downs_{0};
  CompletionRules* completion_rules_ = nullptr;  // guarded by the control lock
  EngineRunner runner_;                          // after the members that its engines refer to
};

}  // namespace uroce::control
