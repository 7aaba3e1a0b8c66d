// Queue pairs, address handles and multicast groups.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include <uroce/flow.h>
#include <uroce/types.h>

#include "message/protocol.h"
#include "message/public_types.h"

namespace uroce::message {

/// One change of a queue pair.
struct ModifyStep {
  QpAttrMask mask{};
  QpAttr attr{};
  static void fields(auto& self, auto& archive) { archive(self.mask, self.attr); }
};

struct CreateQp {
  uint32_t pd = 0;
  uint32_t send_cq = 0;
  uint32_t recv_cq = 0;
  uint32_t srq = 0;  ///< 0 for none
  QpType type = QpType::rc;
  QpCap cap{};
  bool signal_all = false;
  int32_t engine = -1;
  Retransmission retransmission{};
  CongestionAlgorithm congestion_control{};
  std::vector<ModifyStep> steps{};  ///< as in ModifyQp; when one fails, there is no queue pair
  static void fields(auto& self, auto& archive) {
    archive(self.pd, self.send_cq, self.recv_cq, self.srq, self.type, self.cap, self.signal_all, self.engine,
            self.retransmission, self.congestion_control, self.steps);
  }
};

struct CreateQpReply {
  uint32_t id = 0;
  uint32_t qpn = 0;
  uint32_t engine = 0;
  QpCap cap{};
  Place place{};
  Place doorbells{};  ///< its ring; no bytes for that of its engine in OpenDeviceReply
  uint32_t doorbell_entries = 0;
  static void fields(auto& self, auto& archive) {
    archive(self.id, self.qpn, self.engine, self.cap, self.place, self.doorbells, self.doorbell_entries);
  }
};

/// Applies the steps in order, each as if it came alone, up to the first that fails.
struct ModifyQp {
  uint32_t qp = 0;
  std::vector<ModifyStep> steps{};
  static void fields(auto& self, auto& archive) { archive(self.qp, self.steps); }
};

struct CreateAddressHandle {
  uint32_t pd = 0;
  AddressVector av{};
  static void fields(auto& self, auto& archive) { archive(self.pd, self.av); }
};

struct CreateAddressHandleReply {
  uint32_t id = 0;
  uint32_t number = 0;  ///< the handle's number in work requests
  static void fields(auto& self, auto& archive) { archive(self.id, self.number); }
};

/// A receive rule. The reply is its Handle.
struct CreateFlow {
  std::vector<uint32_t> qps{};  ///< the hash picks one of them for each frame
  FlowRule rule{};
  RxHash hash{};
  static void fields(auto& self, auto& archive) { archive(self.qps, self.rule, self.hash); }
};

struct Multicast {
  uint32_t qp = 0;
  std::array<uint8_t, 16> gid{};
  static void fields(auto& self, auto& archive) { archive(self.qp, self.gid); }
};

}  // namespace uroce::message
