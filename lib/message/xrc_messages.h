// XRC domains, their shared receive queues and their target queue pairs.
#pragma once

#include <cstdint>

#include <uroce/types.h>

#include "message/protocol.h"
#include "message/queue_messages.h"

namespace uroce::message {

/// The descriptor of the domain's file, if it has one, comes beside it.
struct OpenXrcDomain {
  bool create = false;     ///< O_CREAT of ibv_open_xrcd(3)
  bool exclusive = false;  ///< O_EXCL
  static void fields(auto& self, auto& archive) { archive(self.create, self.exclusive); }
};

/// Its reply is CreateSrqReply.
struct CreateXrcSrq {
  CreateSrq srq{};
  uint32_t domain = 0;
  uint32_t cq = 0;
  static void fields(auto& self, auto& archive) { archive(self.srq, self.domain, self.cq); }
};

struct CreateXrcTarget {
  uint32_t domain = 0;
  Retransmission retransmission{};
  CongestionAlgorithm congestion_control{};
  static void fields(auto& self, auto& archive) { archive(self.domain, self.retransmission, self.congestion_control); }
};

struct OpenXrcTarget {
  uint32_t domain = 0;
  uint32_t qpn = 0;
  static void fields(auto& self, auto& archive) { archive(self.domain, self.qpn); }
};

/// The reply to both.
struct XrcTargetReply {
  uint32_t id = 0;
  uint32_t qpn = 0;
  static void fields(auto& self, auto& archive) { archive(self.id, self.qpn); }
};

}  // namespace uroce::message
