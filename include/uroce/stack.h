// The stack in this process: EAL, ports and engines. For appliances that link DPDK; the benchmarks and the daemon start
// with it.
//
// Threads: devices(), open(), engines(), embedded() and wake() are for any thread; poll() and idle() for the thread
// that called start() and for loops (start_loop()); the other calls for the thread that called start(). The Stack is
// destroyed when no other thread uses it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <uroce/congestion.h>
#include <uroce/engine_settings.h>
#include <uroce/export.h>
#include <uroce/verbs.h>

namespace uroce {

namespace glue {
class StackAccess;
}

/// Behaviour of an engine that has no work.
enum class IdlePolicy {
  /// Keeps polling: lowest latency, needs a core of its own. An embedded stack is polled without pauses
  /// (Stack::poll()).
  busy,
  yield,  ///< keeps polling, and offers the core to other threads in between
  sleep,  ///< polls for a while, then yields, then sleeps until a frame or a post wakes it
};

/// Settings of one port. A member that is set takes the place of the member of StackOptions or EngineSettings with the
/// same name; congestion_control that of the algorithm.
struct PortSettings {
  std::optional<int> mtu{};
  std::optional<int> vlan{};
  std::optional<std::string> gateway{};
  std::optional<std::string> allow{};
  std::optional<Retransmission> retransmission{};
  std::optional<CongestionAlgorithm> congestion_control{};
  std::optional<uint32_t> udp_source_ports{};
};

/// Settings of the stack. DPDK's own settings are EAL arguments. Stack::start() refuses a value that is out of range.
struct StackOptions {
  /// The entry of a port with the addresses, neighbours and routes that the kernel has for its network interface, now
  /// and later.
  static constexpr std::string_view kKernelAddresses = "kernel";
  /// Addresses of each port, in port order: "192.0.2.1/24", "2001:db8::1/64", or several separated by commas. Such a
  /// port also has its IPv6 link-local address. A port without an entry gets 10.117.0.(1 + port)/24; where it is an
  /// interface that the kernel keeps (net_uroce_kif), and without VLAN and gateway, kKernelAddresses.
  std::vector<std::string> addresses{};
  int mtu = 0;   ///< Ethernet MTU of each port in bytes, 340..9216; 0 takes the port's, raised if the driver can
  int vlan = 0;  ///< 802.1Q VLAN id of all frames, 1..4094; 0 for untagged frames
  std::string
      gateway{};  ///< next hop for addresses off the subnet, one per family, separated by a comma; empty for none
  /// The peers that a port takes: addresses and prefixes ("192.0.2.0/24", "2001:db8::1"), separated by commas; empty
  /// for all. Datagrams of others are dropped, and connecting to others fails with EACCES.
  std::string allow{};
  /// They are in port order. A port beyond the last entry has the settings of this structure.
  std::vector<PortSettings> ports{};
  /// With sleep and yield, 40 ms pass before an engine takes a missing answer for a lost packet that nothing followed.
  IdlePolicy idle = IdlePolicy::sleep;
  /// With worker lcores: the program runs the engines, one on each lcore, in loops of its own (Stack::start_loop()).
  /// The main lcore has one, too. Without worker lcores it changes nothing.
  bool own_loops = false;
  /// Adds two ports that rings join back to back to those that the EAL arguments name.
  bool back_to_back = false;
  /// How payload gets into frames: copied, or attached as an external buffer if the port can; automatic chooses.
  enum class TxMode { automatic, copy, external } tx_mode = TxMode::automatic;
  /// How the CPU computes the ICRC of all frames of this process: "automatic" takes the fastest of those that it has
  /// ("avx512", "avx2", "pclmul", "pmull", "table"). The names of others are refused.
  std::string icrc = "automatic";
  uint32_t rx_descriptors = 1024;  ///< per queue
  uint32_t tx_descriptors = 1024;  ///< per queue
  EngineSettings settings{};       ///< of every device and its engines
  /// Chance that a received RoCE frame is dropped, 0..0.5: shows how a program behaves on a network that loses frames.
  double receive_loss = 0;
  /// Builds and checks frames as for a wire even where they stay in this process: between queue pairs of one device,
  /// and between the ports of `back_to_back`. Tests and comparisons use it. `receive_loss` does the same.
  bool whole_frames = false;
  /// A file of fault rules (config/faults.md), which hold for all devices from the start; empty for none. While there
  /// are rules, no frame takes the short way inside the process.
  std::string faults{};
  /// A folder on tmpfs: each engine records there what it does, so that `uroce replay` can do it again. Empty: none
  /// does. A recording has the secrets of its device.
  std::string record{};
  uint32_t record_mib = 64;  ///< MiB of each recording, 1..4096, which has the newest
};

/// The running stack. A process has at most one, because DPDK's EAL starts only once. With worker lcores in the EAL
/// arguments (-l 0,1: lcore 1), each of them runs one engine per port. With the main lcore alone, or with
/// StackOptions::own_loops, the stack is embedded: the program runs the engines by calling poll().
class UROCE_API Stack {
 public:
  /// Starts EAL, ports and engines. `args` are EAL arguments as on a DPDK command line, without the program's name,
  /// e.g.
  /// {"-l", "0,1", "--no-pci"}. Errors: EINVAL (EAL or an option is refused), ENODEV (no port); the text has the
  /// reason.
  static Result<Stack> start(const std::vector<std::string>& args, const StackOptions& options);
  /// Stops the engines and closes the ports. Contexts and their objects may outlive the stack: their calls fail with
  /// ENODEV, and they can be destroyed. While this runs, no other thread may be inside one of their calls.
  ~Stack();
  Stack(Stack&&) noexcept;
  Stack& operator=(Stack&&) noexcept;

  /// Names of the devices, "uroce0" first; one per port.
  std::vector<std::string> devices() const;
  /// Opens a device by its name. Each Context has its own objects and events. Errors: ENODEV (no such device), ENOMEM
  /// (1024 contexts are open), ETIMEDOUT (the engine does not answer).
  Result<Context> open(std::string_view device);
  /// Engines of each device: the values of QpInit::engine begin at 0 and end below. One for each lcore that runs some.
  uint32_t engines() const;
  /// True without worker lcores, and with StackOptions::own_loops: nothing moves unless the program calls poll().
  bool embedded() const;
  /// StackOptions::own_loops: calls `loop` once on the lcore of engine `engine`, which is 1 or more, on its thread.
  /// Until it returns, poll() and idle() inside it serve that engine of each device, and nobody else does; a loop that
  /// pauses stops that engine's queue pairs, and delays control calls of all. Before and afterwards the thread of
  /// start() serves that engine beside its own. Calls inside the loop that wait poll its engine by themselves. An
  /// exception that leaves `loop` ends the process. Errors: EINVAL (no such engine, or the stack is not the program's
  /// to run), EBUSY (the engine has a loop).
  Result<void> start_loop(uint32_t engine, std::function<void()> loop);
  /// Returns once all loops have, and polls meanwhile. So does the destructor: tell the loops first.
  void join_loops();
  /// One pass over all ports of an embedded stack, with the calling thread's engine: in a loop of start_loop() that of
  /// the loop, else engine 0 and those without a loop. True when there was work. Never blocks. Where the
  /// engines have threads of their own it does nothing. A pass acknowledges what it receives before it returns. With
  /// IdlePolicy::busy, and less than 5 us after the call before, the next call acknowledges up to four frames, behind
  /// the answers that the program posts in between. So does the destructor. A program that stops polling calls it once
  /// more. Connections (cm.h) advance here, too, on the thread of start(): a program with connections polls there at
  /// least every 100 ms or so, because its peers repeat messages that nobody answers, and give up at last.
  bool poll();
  /// Embedded, after poll() returned false: gives the core away as the idle policy says, for at most `limit`.
  void idle(std::chrono::nanoseconds limit);
  /// Any thread. Embedded: ends the idle() of the thread that polls `engine`, or its next one where it is in none: what
  /// the caller has stored for that thread before, the thread finds when it looks after idle(). One atomic store, and a
  /// system call where the thread sleeps. No effect where there is no such engine.
  void wake(uint32_t engine);

 private:
  friend class glue::StackAccess;
  struct Impl;
  explicit Stack(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace uroce
