// A planned restart: a daemon asks the running one to hand over (Op::take_over). The reply is empty, or says why not.
// From then on the connection carries packets of another kind: a StepHeader, and behind it the step's content.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include <uroce/types.h>

#include "message/protocol.h"
#include "message/public_types.h"

namespace uroce::message {

/// Facts of a device that must be equal in both daemons, because peers and programs know them.
struct DeviceFacts {
  std::string name{};
  std::string interface{};  ///< of the kernel
  EthAddr mac{};
  uint32_t mtu = 0;  ///< Ethernet MTU, bytes
  uint32_t vlan = 0;
  uint32_t engines = 0;
  // Their bits are part of QPNs and keys, so these are rounded up to a power of two.
  uint32_t max_qp = 0;
  uint32_t max_mr = 0;
  static void fields(auto& self, auto& archive) {
    archive(self.name, self.interface, self.mac, self.mtu, self.vlan, self.engines, self.max_qp, self.max_mr);
  }
};

/// The hello before it told what each side speaks.
struct TakeOver {
  std::string version{};  ///< of the successor
  std::vector<DeviceFacts> devices{};
  static void fields(auto& self, auto& archive) { archive(self.version, self.devices); }
};

struct VersionRange {
  uint32_t oldest = 0;
  uint32_t newest = 0;
  static void fields(auto& self, auto& archive) { archive(self.oldest, self.newest); }
  bool contains(uint32_t version) const { return oldest <= version && version <= newest; }
};

/// Of Step::ready: what a successor reads and speaks. Ranges that later releases add follow these. A release that sends
/// none has the initial ones.
struct SuccessorVersions {
  VersionRange estate{1, 1};
  VersionRange snapshot{8, 8};    ///< of a queue pair
  VersionRange protocol{22, 24};  ///< with its clients
  VersionRange queue_abi{5, 5};
  static void fields(auto& self, auto& archive) { archive(self.estate, self.snapshot, self.protocol, self.queue_abi); }
};

/// The steps come in this order. The running daemon sends `belongings`, `estate`, `bequeathed` and `go`; the successor
/// the others. A daemon that ends before its successor starts sends `facts` first, and waits for nothing.
enum class Step : uint16_t {
  belongings = 1,  ///< BelongingNames, and the descriptors; as many packets as it takes
  ready = 2,       ///< SuccessorVersions; it has opened all that it needs, and the running daemon stands still
  estate = 3,      ///< of the clients; any number of packets
  bequeathed = 4,  ///< that was all
  imported = 5,    ///< the successor can serve at once
  go = 6,          ///< it does: the other daemon never serves again
  failed = 7,      ///< from either side: the running daemon goes on
  facts = 8,       ///< TakeOver, of the daemon that ends
};

struct StepHeader {
  Step step{};
  int32_t error = 0;   ///< of Step::failed: errno value
  std::string text{};  ///< of Step::failed
  static void fields(auto& self, auto& archive) { archive(self.step, self.error, self.text); }
};

/// CLOCK_MONOTONIC, which the processes of a machine share.
inline int64_t now_for_both_ns() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

/// The content of Step::bequeathed. Daemons of 0.1.0 send none.
struct StandingSince {
  int64_t at_ns = 0;     ///< since when nothing moves, by now_for_both_ns()
  uint32_t refused = 0;  ///< clients of whom nothing came
  static void fields(auto& self, auto& archive) { archive(self.at_ns, self.refused); }
};

/// Names of the descriptors beside this packet, in their order.
struct BelongingNames {
  std::vector<std::string> names{};
  bool last = true;
  static void fields(auto& self, auto& archive) { archive(self.names, self.last); }
};

}  // namespace uroce::message
