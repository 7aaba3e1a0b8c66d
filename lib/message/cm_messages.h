// Messages of the connection manager: the calls of include/uroce/cm.h, objects by number.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include <uroce/cm_types.h>

#include "message/cm_options.h"
#include "message/protocol.h"
#include "message/public_types.h"
#include "message/qp_messages.h"

namespace uroce::message {

/// Descriptor: the pipe with one byte per event.
struct CmChannelReply {
  uint32_t channel = 0;
  static void fields(auto& self, auto& archive) { archive(self.channel); }
};

struct CmInfoReply {
  CmIdInfo info{};
  static void fields(auto& self, auto& archive) { archive(self.info); }
};

/// An event, with the state of its id that clients would otherwise query next.
struct CmEventRecord {
  CmEvent event{};
  bool has_info = false;
  CmInfoReply known{};
  std::vector<ModifyStep> steps{};
  static void fields(auto& self, auto& archive) { archive(self.event, self.has_info, self.known, self.steps); }
};
/// The next events of a channel.
inline constexpr std::size_t kMaxEventsTaken = 32;
struct CmEventsReply {
  std::vector<CmEventRecord> events{};
  static void fields(auto& self, auto& archive) { archive(self.events); }
};

struct CmCreateId {
  uint32_t channel = 0;
  PortSpace space{};
  QpType type{};
  static void fields(auto& self, auto& archive) { archive(self.channel, self.space, self.type); }
};

struct CmBind {
  uint32_t id = 0;
  CmAddress local{};
  static void fields(auto& self, auto& archive) { archive(self.id, self.local); }
};

struct CmResolve {
  uint32_t id = 0;
  bool has_local = false;
  CmAddress local{};
  CmAddress remote{};
  uint32_t timeout_ms = 0;
  static void fields(auto& self, auto& archive) {
    archive(self.id, self.has_local, self.local, self.remote, self.timeout_ms);
  }
};

struct CmListen {
  uint32_t id = 0;
  int32_t backlog = 0;
  static void fields(auto& self, auto& archive) { archive(self.id, self.backlog); }
};

/// The request of connect and accept.
struct CmTerms {
  uint32_t id = 0;
  CmParam param{};
  static void fields(auto& self, auto& archive) { archive(self.id, self.param); }
};

struct CmReject {
  uint32_t id = 0;
  uint8_t reason = 0;
  std::vector<std::byte> private_data{};
  static void fields(auto& self, auto& archive) { archive(self.id, self.reason, self.private_data); }
};

struct CmQpAttr {
  uint32_t id = 0;
  QpState state{};
  static void fields(auto& self, auto& archive) { archive(self.id, self.state); }
};
struct CmSetOption {
  uint32_t id = 0;
  CmOption option{};
  uint8_t value = 0;
  static void fields(auto& self, auto& archive) { archive(self.id, self.option, self.value); }
};

struct CmGroup {
  uint32_t id = 0;
  CmAddress group{};
  uint64_t token = 0;
  static void fields(auto& self, auto& archive) { archive(self.id, self.group, self.token); }
};

/// By it the connections of a program's devices find its connection to the connection manager. A secret of the program.
struct CmPass {
  std::array<uint64_t, 2> words{};
  static void fields(auto& self, auto& archive) { archive(self.words); }
};

/// Connects or accepts with a queue pair of the device. To accept, the daemon first applies `before` and the steps to
/// RTR and RTS; to connect, it does so when the peer's answer has come and the program asks for events. Then it also
/// sends the RTU, and the event is `established` instead of `connect_response`. A failure is the event
/// `connect_error`, and the queue pair is then in the error state.
struct CmQpTerms {
  uint32_t qp = 0;
  std::vector<ModifyStep> before{};
  CmTerms terms{};
  static void fields(auto& self, auto& archive) { archive(self.qp, self.before, self.terms); }
};

/// Disconnects, and moves the queue pair of the device to the error state. `before` does not count.
struct CmQpEnd {
  uint32_t qp = 0;
  std::vector<ModifyStep> before{};
  Handle id{};
  static void fields(auto& self, auto& archive) { archive(self.qp, self.before, self.id); }
};

struct CmMigrate {
  uint32_t id = 0;
  uint32_t channel = 0;
  uint32_t taken = 0;  ///< the id's events that the client fetched but has not delivered; they move to the new channel
  static void fields(auto& self, auto& archive) { archive(self.id, self.channel, self.taken); }
};

}  // namespace uroce::message
