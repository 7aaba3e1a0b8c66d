// One Ethernet port, which engines poll: a driver of DPDK's (ethdev_port.h), or an interface of the kernel
// (kernel_port.h, udp_port.h).
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <uroce/error.h>
#include <uroce/stack.h>
#include <uroce/types.h>

#include "message/belongings.h"
#include "pmd_glue/kif/behind.h"
#include "pmd_glue/kif/name.h"
#include "pmd_glue/poller_pause.h"

struct rte_mbuf;
struct rte_mempool;

namespace uroce::wire {
class ReceiveSpread;
}

namespace uroce::glue {

struct PortOptions {
  int mtu = 0;           ///< 0: the port's own, raised for path MTU 4096 if the driver can
  uint32_t engines = 1;  ///< queues wanted, one per engine
  uint16_t rx_descriptors = 1024;
  uint16_t tx_descriptors = 1024;
  StackOptions::TxMode tx_mode = StackOptions::TxMode::automatic;
  uint16_t vlan = 0;              ///< 802.1Q id of all frames; 0: untagged
  bool rx_interrupts = false;     ///< use them if the driver has them
  bool kernel_addresses = false;  ///< the port's addresses are the kernel's, which answers for them
  /// Of the daemon before, until start() has returned: the port takes its sockets from there, and does not use them
  /// before awaken(). Their names begin with `device`.
  message::Belongings* inherited = nullptr;
  std::string device{};  ///< "uroce0"
};

/// Memory that a sent frame may reference instead of copying its payload.
enum class ExternalMemory : uint8_t {
  never,       ///< none: the driver passes buffers on, or cannot send several segments
  any,         ///< any memory: the driver has copied everything when its TX burst returns
  dma_mapped,  ///< memory that EAL knows and has mapped, because hardware reads it
};

class Port {
 public:
  virtual ~Port();
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;

  /// Starts the port, waiting up to 5 s for a memif server to listen. Errors: ENODEV, ETIMEDOUT or the driver's.
  virtual Result<void> start() = 0;
  /// May be called several times. No queue may be in use.
  virtual void stop() = 0;
  /// Stops the port and returns it to EAL. Its buffers, which other ports may still hold, live until ~Port. If the
  /// driver does not return within 5 s, the port and its buffers stay as they are, and a line on stderr says so.
  virtual void close() = 0;

  /// EAL's number of the port; one that EAL does not know for an interface of the kernel.
  uint16_t id() const { return id_; }
  /// Whether it is an interface that the kernel keeps, by the kernel's sockets.
  bool is_kernel_interface() const { return kind_ != Kind::ethdev; }
  /// Whether it has RoCE's UDP port of the kernel, and carries nothing else.
  bool carries_roce_alone() const { return kind_ == Kind::udp; }
  /// Whether frames that the kernel has joined may come up: it joins those of RoCE only if it is told to.
  virtual bool receives_super_frames() const { return false; }
  /// The kernel's index of the interface under the port; 0 for none.
  virtual unsigned interface_index() const = 0;
  /// How often that interface came back as another one. Then the index may have changed.
  virtual uint32_t interface_returns() const { return 0; }
  const std::string& name() const { return name_; }      ///< "net_memif0"
  const std::string& driver() const { return driver_; }  ///< "net_memif"
  EthAddr mac() const { return mac_; }
  Mtu path_mtu() const { return path_mtu_; }
  uint32_t mtu() const { return mtu_; }              ///< Ethernet MTU, bytes
  uint32_t max_frame() const { return max_frame_; }  ///< Ethernet header with a VLAN tag to the ICRC, bytes
  uint16_t queues() const { return queues_; }        ///< 1..engines
  uint32_t tx_slots() const { return tx_slots_; }    ///< frames that one TX queue holds at most
  rte_mempool* pool() const { return pool_; }        ///< each buffer holds one whole frame
  /// The card's highest speed in Mb/s; 100000 for software ports and for those that do not report it.
  uint32_t speed_mbps() const { return speed_mbps_; }
  int socket() const { return socket_; }  ///< NUMA node, or SOCKET_ID_ANY
  ExternalMemory external() const { return external_; }
  /// Valid from start() on.
  bool rx_interrupts() const { return rx_interrupts_; }
  bool fills_ip_checksum() const { return tx_ip_checksum_; }
  /// Any thread.
  virtual Sending sending() const { return Sending::by_driver; }
  /// Frames that wait a little for others leave sooner together.
  bool joins_frames() const { return is_kernel_interface(); }
  /// How frames come to the queues, where peers can choose among them; nullptr elsewhere. Valid from start() on.
  virtual const wire::ReceiveSpread* receive_spread() const { return nullptr; }
  /// READ responses that a queue pair may wait for; no limit for ports whose buffers do not depend on the system's
  /// settings.
  virtual uint32_t read_window_packets() const { return UINT32_MAX; }

  // --- The queue's thread, between start() and stop() -----------------------------------------------------------

  /// At most out.size() frames, which belong to the caller.
  uint16_t receive(uint16_t queue, std::span<rte_mbuf*> out) const;
  /// As receive(), of frames that have left the kernel already: nobody else can receive them.
  virtual uint16_t receive_rest(uint16_t, std::span<rte_mbuf*>) const { return 0; }
  /// Tells what may follow the last burst, for an interface of the kernel.
  virtual kif::Behind behind_burst(uint16_t) const { return kif::Behind::none; }
  /// Takes a prefix of `mbufs` and returns its length.
  uint16_t send(uint16_t queue, std::span<rte_mbuf*> mbufs) const;
  /// Frees sent mbufs, for drivers that keep them until asked.
  void reclaim(uint16_t queue) const;
  /// A descriptor that is readable when frames wait and interrupts are armed; negative if there is none.
  virtual int interrupt_descriptor(uint16_t queue) const = 0;
  virtual void arm_interrupt(uint16_t queue, bool armed) const = 0;
  /// Counters of the port itself for one queue, the same names for all. Any thread.
  virtual std::vector<std::pair<std::string, uint64_t>> counters(uint16_t) const { return {}; }

  // ---------------------------------------------------------------------------------------------------------------

  /// True while somebody else sees a queue's frames inside the driver's burst: DPDK's own captures do.
  bool shows_received(uint16_t queue) const;
  bool shows_sent(uint16_t queue) const;
  /// True when the peer's memory can vanish during a burst (see fault_guard.h).
  virtual bool needs_guard() const { return false; }

  /// Any thread: the last result of refresh_link().
  bool link_up() const { return link_up_.load(std::memory_order_relaxed); }
  /// Takes the link away, whatever refresh_link() sees, or gives it back. Any thread.
  void cut(bool away);
  /// refresh_link(), where the link is not cut. One thread.
  void look_at_link();
  /// Any thread: the card was taken out, or the interface under a driver deleted. It does not come back: start the
  /// stack again for a new one.
  bool gone() const { return gone_.load(std::memory_order_relaxed); }
  /// Any thread: frames wait for a link that may come up. Those for a card that has gone are lost, so requests fail.
  bool holds_frames() const { return !link_up() && !gone(); }
  /// The set-up that was chosen, in one line for people. Valid from start() on.
  virtual std::string description() const = 0;
  /// False for ports inside this process.
  virtual bool link_changes() const { return true; }
  /// Asks the driver, and the kernel for a port on a network interface. One thread.
  virtual void refresh_link() = 0;
  /// Sets the Ethernet addresses of the multicast groups to receive, unless the port receives all. If the driver
  /// refuses the list, the port receives everything. The thread of refresh_link().
  virtual void receive_groups(std::span<const EthAddr> groups) = 0;
  /// The same groups by address, for a port that joins them in the kernel.
  virtual void receive_group_addresses(std::span<const Gid>) {}
  /// For a memif client without a server: restarts the port until one takes it. A server ends, or refuses clients until
  /// its own port has started, and net_memif does not try again. The thread of refresh_link() calls it every
  /// kReconnectInterval. The `pollers` threads that poll the port pause meanwhile.
  virtual void reconnect(uint32_t) {}
  static constexpr std::chrono::milliseconds kReconnectInterval{200};
  /// A poller's thread, before it uses a queue: true when it must not use it. `seen` belongs to the poller and begins
  /// at 0.
  bool paused(uint32_t& seen) const { return pause_.reaches(seen); }

  // --- A planned restart, for interfaces that the kernel keeps
  // --------------------------------------------------------

  /// Between start() and stop(), any thread.
  virtual void lend(message::Belongings&, const std::string& /*device*/) const {}
  /// After start(): the port's sockets are this process's alone from now on, and its pollers may use them.
  virtual void awaken() { pause_.end(); }

 protected:
  enum class Kind : uint8_t { ethdev, kernel, udp };

  Port(Kind kind, uint16_t id) : kind_(kind), id_(id) {}
  /// The MTU that `options` ask for; 0 for none. Errors: EINVAL if no port has it.
  Result<uint32_t> asked_mtu(const PortOptions& options) const;
  /// Takes an MTU, and the longest path MTU below it.
  Result<void> choose_path_mtu(uint32_t mtu);
  /// Makes the buffers of all queues. `receiving`: those that the receiving side of one queue holds.
  Result<void> make_pool(uint32_t receiving, uint32_t engines);
  std::unexpected<Error> fail_port(int code, std::string_view what) const;
  /// Keeps all pollers away until awaken(), if the options say that the port is inherited.
  void take_heritage(const PortOptions& options);

  const Kind kind_;  ///< of the class: bursts choose by it
  const uint16_t id_;
  std::string name_;
  std::string driver_;
  EthAddr mac_{};
  Mtu path_mtu_ = Mtu::mtu256;
  uint16_t vlan_ = 0;
  uint32_t mtu_ = 1500;
  uint32_t max_frame_ = 1518;
  uint32_t room_ = 2048;
  uint16_t queues_ = 1;
  uint32_t tx_slots_ = 1024;
  rte_mempool* pool_ = nullptr;
  int socket_ = -1;
  uint32_t speed_mbps_ = 100000;
  ExternalMemory external_ = ExternalMemory::never;
  bool rx_interrupts_ = false;
  bool tx_ip_checksum_ = false;
  bool started_ = false;
  std::atomic<bool> link_up_{false};
  std::atomic<bool> gone_{false};
  std::atomic<bool> cut_{false};
  PollerPause pause_;
  message::Belongings* inherited_ = nullptr;  ///< until start() has returned
  std::string device_;
};

}  // namespace uroce::glue
