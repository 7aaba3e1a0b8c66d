// A controller: what Connect on an admin queue makes, and the admin commands that concern it alone. It knows no
// transport and no clock.
#pragma once

#include <array>
#include <atomic>
#include <bitset>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>

#include "base/time.h"
#include "nvmf/kept_features.h"
#include "nvmf/nvme.h"
#include "nvmf/sizes.h"
#include "nvmf/subsystem.h"

namespace uroce::nvmf {

/// A command's response, without the command's identifier.
struct Reply {
  nvme::Status status = nvme::Status::success;
  uint64_t result = 0;
  bool held = false;  ///< no response yet: an Asynchronous Event Request
};

/// Writes the bytes [offset, offset + out.size()) of the discovery log page for this host. Bytes beyond the page's end
/// are 0.
class DiscoveryLog {
 public:
  virtual ~DiscoveryLog() = default;
  virtual void read(std::string_view host_nqn, uint64_t offset, std::span<std::byte> out) const = 0;
};

/// The host as Connect names it.
struct Host {
  std::string nqn{};
  std::array<uint8_t, 16> id{};
  friend bool operator==(const Host&, const Host&) = default;
};

/// The calls that I/O queues make are for any thread, and say so; the others for the admin queue's. The subsystem
/// outlives it.
class Controller {
 public:
  Controller(uint16_t id, const Subsystem& subsystem, Host host, uint32_t keep_alive_ms, Nanos now);

  /// Whether a controller of the subsystem may have this keep alive timeout (NVMe 1.4, 5.21.1.15): a discovery
  /// controller's is bounded, since every host gets one.
  static bool can_keep_alive(const Subsystem& subsystem, uint32_t keep_alive_ms);

  uint16_t id() const { return id_; }
  const Subsystem& subsystem() const { return subsystem_; }
  const Host& host() const { return host_; }
  /// Any thread. Enabled by the host and able to take commands other than those of Fabrics.
  bool ready() const {
    return (csts_.load(std::memory_order_acquire) & (nvme::kCstsReady | nvme::kCstsFatal)) == nvme::kCstsReady;
  }

  /// Any thread. The same for a queue that has joined: it does not outlive a reset.
  bool ready(uint32_t joined_at) const { return ready() && resets_.load(std::memory_order_relaxed) == joined_at; }
  /// Any thread. Controller Resets so far: the host has cleared CC.EN.
  uint32_t resets() const { return resets_.load(std::memory_order_relaxed); }

  /// Property Get: `attributes` is ATTRIB, whose low bits are the size (0: 4 bytes, 1: 8 bytes).
  Reply property_get(uint8_t attributes, uint32_t offset) const;
  Reply property_set(uint8_t attributes, uint32_t offset, uint64_t value);

  /// Bytes that an admin command returns, 0 for one without data, before the command is looked at any further.
  static uint64_t admin_data_bytes(const nvme::Command& command);
  /// An admin command other than Abort. `data` is of admin_data_bytes(), and is filled. `log` is null but for a
  /// discovery controller.
  Reply admin(const nvme::Command& command, std::span<std::byte> data, const DiscoveryLog* log);
  /// An Asynchronous Event Request that was held has been answered.
  void event_answered() { --events_held_; }
  /// Asynchronous Event Requests that are held. A reset forgets them, and the queue answers them.
  uint32_t events_held() const { return events_held_; }
  /// A namespace has another size. The host hears of it where it wants to.
  void namespace_changed(uint32_t nsid) { changed_.insert(nsid); }
  /// CDW0 of an event for the host, if one is due and a request is held for it. It is then told, and the next one is
  /// due once the host has read the log page.
  std::optional<uint32_t> take_event();

  /// Any thread. Lets an I/O queue `queue_id` join, if it may now. Returns resets(), with which it leaves.
  std::optional<uint32_t> join(uint16_t queue_id);
  /// Any thread.
  void leave(uint16_t queue_id, uint32_t joined_at);

  /// Any thread. Any command from the host restarts the keep alive timer (CTRATT.TBKAS), to a millisecond: queues of
  /// several lcores do not write here with each command.
  void heard(Nanos now) {
    if (now - heard_.load(std::memory_order_relaxed) >= kHeardEvery) heard_.store(now, std::memory_order_relaxed);
  }
  /// How long ago the last command came.
  Nanos silence(Nanos now) const { return now - heard_.load(std::memory_order_relaxed); }
  /// True once the host has been silent for longer than its keep alive timeout, or without one, for 2 minutes on a
  /// discovery controller. The controller is then fatal for good.
  bool expired(Nanos now);
  /// The admin queue has gone: the other queues must follow.
  void end() { ended_.store(true, std::memory_order_relaxed); }
  /// Any thread.
  bool ended() const { return ended_.load(std::memory_order_relaxed); }

 private:
  Reply identify(const nvme::Command& command, std::span<std::byte> data) const;
  Reply log_page(const nvme::Command& command, std::span<std::byte> data, const DiscoveryLog* log);
  void changed_namespaces(const nvme::Command& command, uint64_t offset, std::span<std::byte> data);
  Reply set_feature(const nvme::Command& command);
  Reply get_feature(const nvme::Command& command) const;
  void configure(uint32_t cc);
  void reset();
  Nanos patience() const;
  uint32_t queues_granted() const;

  static constexpr Nanos kHeardEvery = std::chrono::milliseconds(1);

  const uint16_t id_;
  const Subsystem& subsystem_;
  const Host host_;
  uint32_t cc_ = 0;
  uint32_t keep_alive_ms_;
  uint32_t async_event_config_ = 0;
  uint32_t events_held_ = 0;
  std::set<uint32_t> changed_{};  ///< namespaces, until the host has read the log page
  bool told_ = false;             ///< of changed_, by an event
  KeptFeatures features_{};
  // All queues share these.
  std::atomic<uint32_t> csts_{0};
  std::atomic<uint32_t> resets_{0};  ///< written before csts_
  std::atomic<bool> ended_{false};
  std::atomic<Nanos> heard_;
  mutable std::mutex joining_;  ///< guards the following; not on the path of I/O
  uint32_t queues_granted_ = kIoQueues;
  std::bitset<kIoQueues + 1> joined_;
};

}  // namespace uroce::nvmf
