// The rows of an estate for the connection manager (estate_rows.h, cm/snapshot.h).
//
// The manager's own rows come before all programs: a CmManagerRow, and for each device a CmAgentRow, followed by its
// connections and datagrams. A program's rows follow those of its devices: a CmProgramRow, then channels, ids, events.
#pragma once

#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>

#include "cm/snapshot.h"
#include "message/public_types.h"
#include "service/estate_rows.h"

namespace uroce::service {

/// A member that may be missing.
void maybe(auto& member, auto& archive) {
  bool there = member.has_value();
  archive(there);
  if constexpr (!std::is_const_v<std::remove_reference_t<decltype(member)>>) {
    if (there) member.emplace();
  }
  if (there) archive(*member);
}

void time(auto& member, auto& archive) {
  int64_t nanoseconds = member.count();
  archive(nanoseconds);
  if constexpr (!std::is_const_v<std::remove_reference_t<decltype(member)>>) member = Nanos(nanoseconds);
}

void maybe_time(auto& member, auto& archive) {
  bool there = member.has_value();
  archive(there);
  if constexpr (!std::is_const_v<std::remove_reference_t<decltype(member)>>) {
    if (there) member.emplace();
  }
  if (there) time(*member, archive);
}

}  // namespace uroce::service

namespace uroce::message {

template <>
struct Fields<cm::CmPath> {
  static void visit(auto& self, auto& archive) {
    archive(self.sgid, self.dgid, self.traffic_class, self.hop_limit, self.flow_label, self.mtu, self.ack_timeout);
  }
};

template <>
struct Fields<cm::CmRequest> {
  static void visit(auto& self, auto& archive) {
    archive(self.service_id, self.type, self.path, self.qpn, self.psn, self.responder_resources, self.initiator_depth,
            self.retry_count, self.rnr_retry_count, self.max_cm_retries, self.remote_cm_timeout, self.local_cm_timeout,
            self.flow_control, self.srq, self.pkey, self.ece_vendor, self.ece_options, self.private_data);
  }
};

template <>
struct Fields<cm::CmReply> {
  static void visit(auto& self, auto& archive) {
    archive(self.qpn, self.psn, self.qkey, self.responder_resources, self.initiator_depth, self.rnr_retry_count,
            self.ack_delay, self.flow_control, self.srq, self.sidr_status, self.ece_vendor, self.ece_options,
            self.private_data);
  }
};

template <>
struct Fields<cm::ConnectionSnapshot> {
  static void visit(auto& self, auto& archive) {
    auto& c = self.c;
    archive(c.active, c.request, c.reply, c.remote_qpn, c.remote_psn, c.id, c.state, c.probe, c.owned, c.mra_received,
            c.delivered, c.alternate_path, c.found_by_id, c.found_by_qpn, c.retries_left, c.remote_id, c.remote_guid,
            c.local_qpn, c.transaction_id);
    service::time(c.interval, archive);
    service::maybe(c.last, archive);
    service::maybe_time(self.timer, archive);
  }
};

template <>
struct Fields<PeerGuesses> {
  static void visit(auto& self, auto& archive) {
    archive(self.peer, self.counts);
    service::time(self.ago, archive);
  }
};

template <>
struct Fields<cm::SlowedSnapshot> {
  static void visit(auto& self, auto& archive) {
    archive(self.peer, self.user, self.wrong, self.saved);
    service::time(self.last, archive);
    service::time(self.counted, archive);
  }
};

/// The queue pair of an id is in its row.
template <>
struct Fields<cm::IdSnapshot> {
  static void visit(auto& self, auto& archive) {
    archive(self.number, self.channel, self.space, self.type, self.state, self.local, self.remote, self.holds_port,
            self.device, self.sgid, self.dgid, self.type_of_service, self.reuse_address);
    service::maybe(self.af_only, archive);
    service::maybe(self.ack_timeout, archive);
    archive(self.backlog, self.connection, self.psn, self.responder_resources, self.initiator_depth, self.listener,
            self.turn);
    service::maybe(self.held, archive);
    service::maybe(self.answer, archive);
    service::maybe_time(self.resolving, archive);
    archive(self.groups);
  }
};

}  // namespace uroce::message

namespace uroce::service {

struct CmManagerRow {
  static constexpr Row kRow = Row::cm_manager;
  static constexpr uint32_t kSince = 2;
  uint32_t next_number = 1;
  std::vector<cm::SlowedSnapshot> slowed{};
  static void fields(auto& self, auto& archive) { archive(self.next_number, self.slowed); }
};

struct CmAgentRow {
  static constexpr Row kRow = Row::cm_agent;
  static constexpr uint32_t kSince = 2;
  std::string device{};
  SecretPermutation::Key key{};  ///< of the stream of connection ids
  uint32_t ids_given = 0;
  Gid last_slowed{};
  std::vector<std::pair<std::string, uint64_t>> counters{};
  std::vector<PeerGuesses> guesses{};
  static void fields(auto& self, auto& archive) {
    archive(self.device, self.key, self.ids_given, self.last_slowed, self.counters, self.guesses);
  }
};

struct CmConnectionRow {
  static constexpr Row kRow = Row::cm_connection;
  static constexpr uint32_t kSince = 2;
  cm::ConnectionSnapshot connection{};
  static void fields(auto& self, auto& archive) { archive(self.connection); }
};

struct CmOutgoingRow {
  static constexpr Row kRow = Row::cm_outgoing;
  static constexpr uint32_t kSince = 2;
  cm::OutgoingSnapshot mad{};
  static void fields(auto& self, auto& archive) {
    archive(self.mad.path, self.mad.mad);
    time(self.mad.waited, archive);
  }
};

struct CmIncomingRow {
  static constexpr Row kRow = Row::cm_incoming;
  static constexpr uint32_t kSince = 2;
  cm::IncomingSnapshot mad{};
  static void fields(auto& self, auto& archive) { archive(self.mad.source, self.mad.destination, self.mad.mad); }
};

struct CmProgramRow {
  static constexpr Row kRow = Row::cm_program;
  static constexpr uint32_t kSince = 2;
  uint32_t last_channel = 0;
  static void fields(auto& self, auto& archive) { archive(self.last_channel); }
};

struct CmChannelRow {
  static constexpr Row kRow = Row::cm_channel;
  static constexpr uint32_t kSince = 2;
  uint32_t number = 0;
  uint32_t owed = 0;
  uint32_t read_end = 0;  ///< descriptors
  uint32_t write_end = 0;
  static void fields(auto& self, auto& archive) { archive(self.number, self.owed, self.read_end, self.write_end); }
};

struct CmIdRow {
  static constexpr Row kRow = Row::cm_id;
  static constexpr uint32_t kSince = 2;
  cm::IdSnapshot id{};
  uint32_t device = 0;  ///< of the program's, which has the queue pair
  uint32_t qp = 0;      ///< that connects together with it; 0: none
  static void fields(auto& self, auto& archive) { archive(self.id, self.device, self.qp); }
};

struct CmEventRow {
  static constexpr Row kRow = Row::cm_event;
  static constexpr uint32_t kSince = 2;
  uint32_t channel = 0;
  CmEvent event{};
  static void fields(auto& self, auto& archive) { archive(self.channel, self.event); }
};

}  // namespace uroce::service
