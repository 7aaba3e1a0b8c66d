// Messages of the connection manager: the calls of include/uroce/cm.h, objects by number.
#pragma once

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

/// The calls for an id that may need no reply.
enum class CmCall : uint8_t {
  resolve_route = 1 << 0,
  connect = 1 << 1,
  accept = 1 << 2,
  disconnect = 1 << 3,
  destroy = 1 << 4,
};
using CmCallMask = Flags<CmCall>;

/// An event, with the state of its id that clients would otherwise query next.
struct CmEventRecord {
  CmEvent event{};
  bool has_info = false;
  CmInfoReply known{};
  std::vector<ModifyStep> steps{};
  /// Calls that the manager will not refuse while the program makes no other call for the id. Nothing needs to wait for
  /// their reply.
  CmCallMask welcome{};
  static void fields(auto& self, auto& archive) {
    archive(self.event, self.has_info, self.known, self.steps, self.welcome);
  }
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

/// Connects or accepts. With a queue pair, the manager moves it to RTS: to accept, at once; to connect, when the peer's
/// answer has come. Then the manager also sends the RTU, and the event is `established` instead of `connect_response`.
/// Without a reply, a failure is the event `connect_error`, with the queue pair in the error state.
struct CmTerms {
  uint32_t id = 0;
  CmParam param{};
  uint32_t qp = 0;  ///< of the device that the request is for; 0: none
  static void fields(auto& self, auto& archive) { archive(self.id, self.param, self.qp); }
};

struct CmDisconnect {
  uint32_t id = 0;
  uint32_t qp = 0;  ///< of the device that the request is for, moved to the error state; 0: none
  static void fields(auto& self, auto& archive) { archive(self.id, self.qp); }
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

struct CmRaiseEvent {
  uint32_t id = 0;
  CmEventType type{};
  int32_t status = 0;
  uint64_t argument = 0;
  static void fields(auto& self, auto& archive) { archive(self.id, self.type, self.status, self.argument); }
};

struct CmMigrate {
  uint32_t id = 0;
  uint32_t channel = 0;
  uint32_t taken = 0;  ///< the id's events that the client fetched but has not delivered; they move to the new channel
  static void fields(auto& self, auto& archive) { archive(self.id, self.channel, self.taken); }
};

}  // namespace uroce::message
