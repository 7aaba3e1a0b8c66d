// The operator's requests: lists of clients and of their objects, and captures of frames.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "message/protocol.h"
#include "message/public_types.h"

namespace uroce::message {

/// Asks for the connections after `after`; a reply holds as many as fit.
struct ListClients {
  uint32_t after = 0;
  static void fields(auto& self, auto& archive) { archive(self.after); }
};

/// RoCE packets, and their bytes from Ethernet to ICRC.
struct Traffic {
  uint64_t rx_packets = 0, rx_bytes = 0, tx_packets = 0, tx_bytes = 0;
  static void fields(auto& self, auto& archive) {
    archive(self.rx_packets, self.rx_bytes, self.tx_packets, self.tx_bytes);
  }
};

/// One connection, for the operator.
struct ClientRow {
  uint32_t id = 0;
  int32_t pid = 0;
  uint32_t uid = 0;
  std::string command{};  ///< of the process, as /proc shows it
  std::string device{};   ///< opened; empty before
  uint32_t qps = 0, cqs = 0, srqs = 0, mrs = 0, pds = 0, ahs = 0;
  uint64_t queue_bytes = 0;
  uint64_t registered_bytes = 0;
  uint64_t calls = 0;   ///< served
  uint64_t errors = 0;  ///< calls refused
  Traffic traffic{};    ///< of its queue pairs, those that have ended included
  static void fields(auto& self, auto& archive) {
    archive(self.id, self.pid, self.uid, self.command, self.device, self.qps, self.cqs, self.srqs, self.mrs, self.pds,
            self.ahs, self.queue_bytes, self.registered_bytes, self.calls, self.errors, self.traffic);
  }
};

struct ClientRows {
  std::vector<ClientRow> rows{};
  bool more = false;
  static void fields(auto& self, auto& archive) { archive(self.rows, self.more); }
};

/// One user's part of a resource.
struct Budget {
  std::string resource{};  ///< "qp", "queue_bytes"
  uint64_t used = 0;
  uint64_t limit = 0;
  static void fields(auto& self, auto& archive) { archive(self.resource, self.used, self.limit); }
};

/// One user of the daemon.
struct UserRow {
  uint32_t uid = 0;
  bool privileged = false;
  uint64_t refusals = 0;  ///< calls refused because of a limit
  std::vector<Budget> budgets{};
  Traffic traffic{};  ///< of its connections, those that have ended included
  uint64_t key() const { return uint64_t{uid} * 2 + (privileged ? 1 : 0) + 1; }  ///< grows from row to row
  static void fields(auto& self, auto& archive) {
    archive(self.uid, self.privileged, self.refusals, self.budgets, self.traffic);
  }
};

/// Asks for the users whose key is greater than `after`; a reply holds as many as fit.
struct ListUsers {
  uint64_t after = 0;
  static void fields(auto& self, auto& archive) { archive(self.after); }
};

struct UserRows {
  std::vector<UserRow> rows{};
  bool more = false;
  static void fields(auto& self, auto& archive) { archive(self.rows, self.more); }
};

/// Asks for the objects of all clients after (client, id); a reply holds as many as fit.
struct ListObjects {
  Kind kind{};
  uint32_t after_client = 0;
  uint32_t after_id = 0;
  static void fields(auto& self, auto& archive) { archive(self.kind, self.after_client, self.after_id); }
};

/// Names and values are text, so that tool and daemon may differ in version.
struct ObjectRow {
  uint32_t client = 0;
  uint32_t id = 0;
  std::vector<std::pair<std::string, std::string>> values{};
  static void fields(auto& self, auto& archive) { archive(self.client, self.id, self.values); }
};

struct ObjectRows {
  std::vector<ObjectRow> rows{};
  bool more = false;
  static void fields(auto& self, auto& archive) { archive(self.rows, self.more); }
};

/// Asks who has guessed numbers of a device: the peers with greater addresses than `after`. A reply holds as many as
/// fit.
struct ListPeers {
  std::string device{};
  Gid after{};
  static void fields(auto& self, auto& archive) { archive(self.device, self.after); }
};

/// One address, and how often it named what it should not know. The names are text, as an object's.
struct PeerRow {
  Gid peer{};
  std::vector<std::pair<std::string, uint64_t>> guesses{};
  uint64_t last_ms = 0;  ///< since the last guess
  static void fields(auto& self, auto& archive) { archive(self.peer, self.guesses, self.last_ms); }
};

struct PeerRows {
  std::vector<PeerRow> rows{};
  bool more = false;
  static void fields(auto& self, auto& archive) { archive(self.rows, self.more); }
};

/// Asks for what happened after event `after`; a reply holds as much as fits. Members that are 0
/// or empty are not looked at. With a queue pair, also what happened to its program as a whole.
struct ListHistory {
  uint64_t after = 0;
  uint32_t qpn = 0;
  int32_t pid = 0;
  std::string command{};
  static void fields(auto& self, auto& archive) { archive(self.after, self.qpn, self.pid, self.command); }
};

struct HistoryRow {
  uint64_t number = 0;  ///< grows from event to event
  uint32_t client = 0;  ///< the program's; its devices may have other numbers
  int32_t pid = 0;
  uint32_t uid = 0;
  std::string command{};
  bool gone = false;     ///< the program has ended
  bool trouble = false;  ///< nothing that the program wanted
  std::string device{};
  uint32_t qpn = 0;  ///< 0: of no single queue pair
  std::string text{};
  uint32_t times = 1;   ///< that it happened, one after the other
  uint64_t ago_ms = 0;  ///< since the last of them
  static void fields(auto& self, auto& archive) {
    archive(self.number, self.client, self.pid, self.uid, self.command, self.gone, self.trouble, self.device, self.qpn,
            self.text, self.times, self.ago_ms);
  }
};

struct HistoryRows {
  std::vector<HistoryRow> rows{};
  bool more = false;
  static void fields(auto& self, auto& archive) { archive(self.rows, self.more); }
};

/// Asks for the programs after client number `after` that have ended and left objects. A reply holds as many as fit.
struct ListLeft {
  uint32_t after = 0;
  static void fields(auto& self, auto& archive) { archive(self.after); }
};

/// A program that ended without destroying all that it made.
struct LeftRow {
  uint32_t client = 0;
  int32_t pid = 0;
  uint32_t uid = 0;
  std::string command{};
  std::vector<std::pair<std::string, uint64_t>> objects{};  ///< kinds in the singular ("queue pair"), and how many
  static void fields(auto& self, auto& archive) {
    archive(self.client, self.pid, self.uid, self.command, self.objects);
  }
};

struct LeftRows {
  std::vector<LeftRow> rows{};
  bool more = false;
  static void fields(auto& self, auto& archive) { archive(self.rows, self.more); }
};

/// One fault rule.
struct FaultRow {
  uint32_t number = 0;  ///< grows from rule to rule
  uint64_t seed = 0;
  uint64_t chosen = 0;    ///< frames that its words chose, before nth, every and probability
  uint64_t hits = 0;      ///< injections
  uint64_t overflow = 0;  ///< frames lost because there was no room to keep them
  std::string text{};
  static void fields(auto& self, auto& archive) {
    archive(self.number, self.seed, self.chosen, self.hits, self.overflow, self.text);
  }
};

/// Asks for the rules after number `after`; a reply holds as many as fit.
struct ListFaults {
  uint32_t after = 0;
  static void fields(auto& self, auto& archive) { archive(self.after); }
};

struct FaultRows {
  std::vector<FaultRow> rows{};
  bool more = false;
  static void fields(auto& self, auto& archive) { archive(self.rows, self.more); }
};

/// Adds rules, a line for each; all or none.
struct AddFaults {
  std::string source{};  ///< a file's name, for errors
  std::string rules{};
  static void fields(auto& self, auto& archive) { archive(self.source, self.rules); }
};

/// Reply to Op::add_faults.
struct AddedFaults {
  uint32_t first = 0, last = 0;  ///< numbers; 0 where there was no rule
  static void fields(auto& self, auto& archive) { archive(self.first, self.last); }
};

struct ClearFaults {
  uint32_t number = 0;  ///< 0: all
  static void fields(auto& self, auto& archive) { archive(self.number); }
};

/// One engine. The names are text, as an object's: "busy_ns", "rounds", "rx_packets".
struct EngineRow {
  uint32_t engine = 0;
  std::vector<std::pair<std::string, uint64_t>> values{};
  static void fields(auto& self, auto& archive) { archive(self.engine, self.values); }
};

/// Reply to Op::list_engines: all engines, which are 64 at most.
struct EngineRows {
  std::vector<EngineRow> rows{};
  static void fields(auto& self, auto& archive) { archive(self.rows); }
};

/// Reply to Op::restart.
struct RestartRow {
  /// Names and values as text, as an object's: "from_version", "frozen_ms". Empty: this daemon took over from no other.
  std::vector<std::pair<std::string, std::string>> last{};
  bool kept = false;                     ///< at the next one the service manager keeps what clients have
  std::vector<std::string> obstacles{};  ///< why the next one will end the clients' connections
  static void fields(auto& self, auto& archive) { archive(self.last, self.kept, self.obstacles); }
};

/// Reply to Op::capture, whose request is OpenDevice: the device is captured until the connection ends. The descriptor
/// is the memory with all rings (capture_ring.h).
struct CaptureReply {
  uint32_t rings = 0;
  uint64_t epoch_ns = 0;  ///< wall-clock time of the records' time 0, ns since 1970
  static void fields(auto& self, auto& archive) { archive(self.rings, self.epoch_ns); }
};

}  // namespace uroce::message
