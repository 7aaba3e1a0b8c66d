// The target: subsystems, and the controllers that hosts have made. It knows no transport and no clock.
#pragma once

#include <cstdint>
#include <expected>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/time.h"
#include "nvmf/controller.h"
#include "nvmf/holdings.h"
#include "nvmf/subsystem.h"

namespace uroce::nvmf {

/// The address that hosts connect to, as text.
struct Portal {
  std::string address{};
  bool ipv6 = false;
  uint16_t port = 4420;
  friend bool operator==(const Portal&, const Portal&) = default;
};

/// The result of Connect for a queue.
struct Joined {
  std::shared_ptr<Controller> controller{};
  uint32_t at = 0;      ///< Controller::resets() then
  bool listed = false;  ///< a `hosts` list names the host
};

/// Any thread, with a lock that commands but Connect do not take. It outlives its controllers' queues.
class Target {
 public:
  /// The discovery subsystem is added. Controllers have the kControllers ids from `first_id` on, kLastFirstId at most.
  /// Draw it: a host that has not noticed the end of an earlier target refuses another controller with an id that it
  /// knows of that subsystem. `portals`: where hosts may connect to, for the discovery log.
  explicit Target(std::vector<Subsystem> subsystems, uint16_t first_id = 1, const Bounds& bounds = {},
                  std::vector<Portal> portals = {});

  /// Connect (NVMe-oF 1.1, 3.3). `queue_id` is that of the RDMA connection, and `entries` the size of its receive
  /// queue. The controller is a new one for the admin queue, and else that of the admin queue. `address` is the host's:
  /// with its NQN it bounds what it gets. The reply is that of a failure.
  std::expected<Joined, Reply> connect(const nvme::Command& command, const nvme::ConnectData& data, uint16_t queue_id,
                                       uint32_t entries, const std::string& address, Nanos now);
  /// Forgets the controller of an admin queue that has gone.
  void remove(Controller& controller, const std::string& address);
  /// An I/O queue that joined has gone.
  void leave(Controller& controller, uint16_t queue_id, uint32_t joined_at, const std::string& address);
  std::size_t controllers() const;

  /// The thread of the admin queues. Takes the sizes that the disks have now, and tells the hosts of those that
  /// changed.
  void look_at_disks();

  /// Bytes [offset, ...) of the log page for this host: the subsystems that it may connect to, at each of the target's
  /// portals, and before them at `portal`, where the host is, if it is none of them.
  void discovery_log(std::string_view host_nqn, const Portal& portal, uint64_t offset, std::span<std::byte> out) const;

 private:
  std::expected<Joined, Reply> create(const Subsystem& subsystem, Host host, const std::string& address,
                                      uint32_t keep_alive_ms, Nanos now);
  std::expected<Joined, Reply> join(const nvme::ConnectData& data, const Subsystem& subsystem, const Host& host,
                                    const std::string& address, uint16_t queue_id);
  Holder holder(const Host& host, const std::string& address) const;

  std::vector<Subsystem> subsystems_;  ///< never changes
  const uint16_t first_id_;
  const std::vector<Portal> portals_;
  mutable std::mutex mutex_;                              ///< guards the following
  std::vector<std::shared_ptr<Controller>> controllers_;  ///< by id - first_id_; null where free
  uint16_t next_id_ = 0;
  Holdings holdings_;
};

/// The discovery log for hosts at one portal.
class PortalLog final : public DiscoveryLog {
 public:
  PortalLog(const Target& target, Portal portal) : target_(target), portal_(std::move(portal)) {}
  void read(std::string_view host_nqn, uint64_t offset, std::span<std::byte> out) const override {
    target_.discovery_log(host_nqn, portal_, offset, out);
  }

 private:
  const Target& target_;
  const Portal portal_;
};

}  // namespace uroce::nvmf
