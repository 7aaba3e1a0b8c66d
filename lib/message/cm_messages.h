// Messages of the connection manager: the calls of include/uroce/cm.h, objects by number.
#pragma once

#include <cstdint>
#include <vector>

#include <uroce/cm.h>

#include "message/messages.h"

namespace uroce::message {

struct CmAddressBytes : CmAddress {
  template <class A>
  void fields(A& a) {
    a(ip.bytes, port);
  }
  static CmAddressBytes from(const CmAddress& address) {
    CmAddressBytes out;
    static_cast<CmAddress&>(out) = address;
    return out;
  }
};

struct CmParamBytes : CmParam {
  template <class A>
  void fields(A& a) {
    a(private_data, responder_resources, initiator_depth, flow_control, retry_count, rnr_retry_count, srq, qpn, qkey);
  }
  static CmParamBytes from(CmParam param) {
    CmParamBytes out;
    static_cast<CmParam&>(out) = std::move(param);
    return out;
  }
};

/// Descriptor: the pipe with one byte per event.
struct CmChannelReply {
  uint32_t channel = 0;
  template <class A>
  void fields(A& a) {
    a(channel);
  }
};

struct CmInfoReply {
  CmIdInfo info{};
  template <class A>
  void fields(A& a) {
    a(info.local.ip.bytes, info.local.port, info.remote.ip.bytes, info.remote.port, info.device, info.sgid.bytes,
      info.sgid_index, info.dgid.bytes, info.mtu, info.traffic_class, info.hop_limit, info.ack_timeout);
  }
};

/// An event, with what clients ask next of its id.
struct CmToldEvent {
  CmEvent event{};
  bool has_info = false;
  CmInfoReply known{};
  std::vector<ModifyStep> steps{};
  template <class A>
  void fields(A& a) {
    auto param = CmParamBytes::from(std::move(event.param));
    Vector av;
    static_cast<AddressVector&>(av) = event.av;
    a(event.type, event.id, event.listener, event.status, param, av, event.join, has_info, known, steps);
    event.param = std::move(param);
    event.av = av;
  }
};
/// The next events of a channel.
inline constexpr std::size_t kMaxEventsTaken = 32;
struct CmEventsReply {
  std::vector<CmToldEvent> events{};
  template <class A>
  void fields(A& a) {
    a(events);
  }
};

struct CmCreateId {
  uint32_t channel = 0;
  PortSpace space{};
  QpType type{};
  template <class A>
  void fields(A& a) {
    a(channel, space, type);
  }
};

struct CmBind {
  uint32_t id = 0;
  CmAddressBytes local{};
  template <class A>
  void fields(A& a) {
    a(id, local);
  }
};

struct CmResolve {
  uint32_t id = 0;
  bool has_local = false;
  CmAddressBytes local{};
  CmAddressBytes remote{};
  uint32_t timeout_ms = 0;
  template <class A>
  void fields(A& a) {
    a(id, has_local, local, remote, timeout_ms);
  }
};

struct CmListen {
  uint32_t id = 0;
  int32_t backlog = 0;
  template <class A>
  void fields(A& a) {
    a(id, backlog);
  }
};

/// To connect and to accept.
struct CmTerms {
  uint32_t id = 0;
  CmParamBytes param{};
  template <class A>
  void fields(A& a) {
    a(id, param);
  }
};

struct CmReject {
  uint32_t id = 0;
  uint8_t reason = 0;
  std::vector<std::byte> private_data{};
  template <class A>
  void fields(A& a) {
    a(id, reason, private_data);
  }
};

struct CmQpAttr {
  uint32_t id = 0;
  QpState state{};
  template <class A>
  void fields(A& a) {
    a(id, state);
  }
};
struct CmSetOption {
  uint32_t id = 0;
  uint8_t option = 0;
  uint8_t value = 0;
  template <class A>
  void fields(A& a) {
    a(id, option, value);
  }
};

struct CmGroup {
  uint32_t id = 0;
  CmAddressBytes group{};
  uint64_t token = 0;
  template <class A>
  void fields(A& a) {
    a(id, group, token);
  }
};

struct CmMigrate {
  uint32_t id = 0;
  uint32_t channel = 0;
  uint32_t taken = 0;  ///< events of the id that were taken and not handed on: they wait at the new channel
  template <class A>
  void fields(A& a) {
    a(id, channel, taken);
  }
};

}  // namespace uroce::message
