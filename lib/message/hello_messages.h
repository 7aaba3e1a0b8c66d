// The first exchange on a connection: the protocol versions of both sides, and the daemon's devices.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <uroce/verbs/device.h>

#include "message/protocol.h"
#include "message/public_types.h"

namespace uroce::message {

struct Hello {
  uint32_t magic = kMagic;
  uint32_t protocol = kProtocol;
  uint32_t queue_abi = 0;
  std::string version{};  ///< of the program, for error texts
  static void fields(auto& self, auto& archive) { archive(self.magic, self.protocol, self.queue_abi, self.version); }
};

struct HelloReply {
  Hello daemon{};
  std::vector<DeviceInfo> devices{};
  static void fields(auto& self, auto& archive) { archive(self.daemon, self.devices); }
};

}  // namespace uroce::message
