// The first exchange on a connection: the protocol versions of both sides, and the daemon's devices.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <uroce/verbs/device.h>

#include "message/protocol.h"
#include "message/public_types.h"

namespace uroce::message {

/// Of Hello::features: the daemon takes a packet socket as proof of CAP_NET_RAW (Op::prove_raw_packets).
inline constexpr uint64_t kTakesPacketSocket = 1;
/// The daemon can hand over to a successor (Op::take_over).
inline constexpr uint64_t kHandsOver = 2;

/// The versions that one side speaks. Its encoding never changes: `protocol` says which members follow.
struct Hello {
  uint32_t magic = kMagic;
  uint32_t protocol = kProtocol;  ///< the newest version
  uint32_t queue_abi = 0;         ///< the newest layout of queues
  std::string version{};          ///< of the program, for error texts
  uint32_t oldest_protocol = kOldestProtocol;
  uint32_t oldest_queue_abi = 0;
  uint64_t features = 0;  ///< bits for what a side can do beyond its version. Unknown ones are ignored
  static void fields(auto& self, auto& archive) {
    archive(self.magic, self.protocol, self.queue_abi, self.version);
    if (self.protocol > 22) {
      archive(self.oldest_protocol, self.oldest_queue_abi, self.features);
    } else if constexpr (requires { self.oldest_protocol = self.protocol; }) {  // such a side speaks one version
      self.oldest_protocol = self.protocol;
      self.oldest_queue_abi = self.queue_abi;
    }
  }
};

/// The newest version that both sides speak, each from its oldest to its newest one; nullopt: there is none.
constexpr std::optional<uint32_t> common_version(uint32_t newest, uint32_t oldest, uint32_t others_newest,
                                                 uint32_t others_oldest) {
  const uint32_t common = std::min(newest, others_newest);
  if (common < std::max(oldest, others_oldest)) return std::nullopt;
  return common;
}

struct HelloReply {
  Hello daemon{};  ///< `protocol` and `queue_abi` are those that both speak from now on
  std::vector<DeviceInfo> devices{};
  static void fields(auto& self, auto& archive) { archive(self.daemon, self.devices); }
};

}  // namespace uroce::message
