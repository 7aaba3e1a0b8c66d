// The stack in this process: EAL, ports and engines. What an appliance links, and what the bundled apps start with.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <uroce/congestion.h>
#include <uroce/export.h>
#include <uroce/verbs.h>

namespace uroce {

namespace glue {
class StackAccess;
}

/// What an engine does when it finds no work.
enum class IdlePolicy {
  busy,   ///< polls on: lowest latency, a core of its own
  yield,  ///< polls on, giving way to others on its core
  sleep,  ///< spins a little, then yields, then sleeps until a frame or a post wakes it
};

/// What one port has of its own, where it differs from the stack's setting of the same name.
struct PortSettings {
  std::optional<int> mtu{};
  std::optional<int> vlan{};
  std::optional<std::string> gateway{};
  std::optional<Retransmission> retransmission{};
  std::optional<CongestionAlgorithm> congestion_control{};
  std::optional<uint32_t> udp_source_ports{};
};

/// Settings of the stack; the EAL's own come as EAL arguments.
struct StackOptions {
  /// Addresses per port, in port order: "192.0.2.1/24", "2001:db8::1/64", several separated by commas. A port
  /// without an entry gets 10.117.0.(1 + port)/24. The IPv6 link-local address is always there.
  std::vector<std::string> addresses{};
  int mtu = 0;   ///< Ethernet MTU to set on each port, bytes; 0 keeps the port's own, raised where the driver allows
  int vlan = 0;  ///< 802.1Q VLAN id 1..4094 of all frames; 0 for untagged
  std::string gateway{};  ///< next hop for addresses off the subnet; empty for none
  /// In port order; ports beyond the last entry have the settings above.
  std::vector<PortSettings> ports{};
  IdlePolicy idle = IdlePolicy::sleep;
  /// Two ports joined back to back by rings, added to those that the EAL arguments name.
  bool back_to_back = false;
  /// How payload gets into frames: copied, or attached as external buffers where the port can; automatic chooses.
  enum class TxMode { automatic, copy, external } tx_mode = TxMode::automatic;
  uint32_t max_qp = 16384;                                    ///< per device
  uint32_t max_mr = 65536;                                    ///< per device
  uint32_t rx_descriptors = 1024;                             ///< per queue
  uint32_t tx_descriptors = 1024;                             ///< per queue
  Retransmission retransmission = Retransmission::automatic;  ///< of RC queue pairs that do not choose
  CongestionSettings congestion{};                            ///< likewise, and parameters for all
  uint32_t udp_source_ports = 1;   ///< that the packets of an RC queue pair are sprayed over, 1 to 64
  uint32_t parking_frames = 1024;  ///< frames per engine and device that arrived early and are kept, 0 to 65535
  /// Chance of every received RoCE frame to be dropped, 0 to 0.5: to try a program on a network that loses.
  double receive_loss = 0;
};

/// One per process (DPDK's EAL allows no second one). With worker lcores in the EAL arguments (-l 0,1: lcore 1), each
/// runs an engine per port until stop. With the main lcore alone, the embedder runs the engines by calling poll().
class UROCE_API Stack {
 public:
  /// `args` are EAL arguments as on a DPDK command line, without the program name, e.g. {"-l", "0,1", "--no-pci"}.
  /// Errors: EINVAL (EAL refuses), ENODEV (no port), each with the reason in the text.
  static Result<Stack> start(const std::vector<std::string>& args, const StackOptions& options);
  /// Stops the engines and closes the ports. Contexts and their objects may outlive it: their calls then fail with
  /// ENODEV, and they can be destroyed. No other thread may be inside a call of theirs meanwhile.
  ~Stack();
  Stack(Stack&&) noexcept;
  Stack& operator=(Stack&&) noexcept;

  /// Names of the devices, "uroce0" first; one per port.
  std::vector<std::string> devices() const;
  /// Opens a device by its name. Each Context has resources of its own. Errors: ENODEV (no such device), ENOMEM (1024
  /// are open), ETIMEDOUT (its engine does not answer).
  Result<Context> open(std::string_view device);
  /// True when poll() must be called for anything to move: no worker lcores.
  bool embedded() const;
  /// Embedded, always from the thread that called start(): one pass over all ports and engines. True when there was
  /// work. Never blocks. With worker lcores it does nothing.
  bool poll();
  /// Embedded, same thread: after poll() returned false, gives the core away as the idle policy says, at most `limit`.
  void idle(std::chrono::nanoseconds limit);

 private:
  friend class glue::StackAccess;
  struct Impl;
  explicit Stack(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace uroce
