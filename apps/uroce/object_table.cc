#include "uroce/object_table.h"

#include <fmt/format.h>

#include <algorithm>

namespace uroce::cli {

namespace {

constexpr Field kKey{"key", "lkey and rkey; for root and the daemon's user"};
constexpr Field kPd{"pd", "protection domain"};
constexpr Field kUsers{"users", "objects that use it"};

constexpr Field kQpFields[] = {
    {"qpn", "number"},
    {"type", "service: RC, UC, UD, XRC_INI, XRC_TGT, RAW_PACKET"},
    {"engine", "engine that serves it"},
    {"state", "as ibv_query_qp(3) has it"},
    {"dest_qpn", "number of the peer's queue pair"},
    {"dgid", "the peer's address"},
    {"sq_psn", "PSN of the next request; for root and the daemon's user"},
    {"rq_psn", "PSN expected next; for root and the daemon's user"},
    {"path_mtu", "bytes of payload in a packet"},
    {"sends_posted", "work requests posted to the send queue, without a completion yet"},
    {"recvs_posted", "receives posted and not used, without those of an SRQ"},
    {"in_flight", "packets sent and not acknowledged"},
    {"retries_left", "timeouts or NAKs that it still survives without progress"},
    {"rnr_retries_left", "the same for RNR NAKs"},
    {"timer_us", "microseconds until the ACK timeout, or the end of an RNR wait"},
    {"recovery", "loss recovery with this peer"},
    {"srtt_us", "smoothed round-trip time, microseconds; 0: not known"},
    {"resent_fast", "packets resent because a SACK or a later response showed the loss"},
    {"resent_probe", "packets resent after a silence shorter than a timeout"},
    {"resent_timeout", "packets resent after a timeout"},
    {"resent_nak", "packets resent after a NAK"},
    {"parked", "requests that wait for an earlier one"},
    {"congestion", "congestion control"},
    {"rate_mbps", "rate that congestion control allows, Mb/s"},
    {"window", "packets that may be in flight"},
    {"cnps_sent", "congestion notifications sent"},
    {"cnps_received", "congestion notifications received"},
    {"path_changes", "times that it left a congested or dead path"},
    kPd,
    {"send_cq", "completion queue of its sends"},
    {"recv_cq", "completion queue of its receives"},
    {"srq", "shared receive queue"},
};
constexpr Field kCmFields[] = {
    {"cm_id", "number"},
    {"state", "the kernel's name: LISTEN, CONNECT"},
    {"space", "port space: 0x0106 TCP, 0x0111 UDP, 0x013f IB, 0x0002 IPoIB"},
    {"local", "own address and port"},
    {"remote", "the peer's address and port"},
};
constexpr Field kMrFields[] = {
    {"mr", "number"},
    kKey,
    kPd,
    {"address", "of the first byte in the program"},
    {"length", "bytes"},
    {"access", "rights"},
    {"mapped", "bytes of whole pages that the daemon has mapped"},
};
constexpr Field kMwFields[] = {
    {"mw", "number"},
    {"key", "first rkey; for root and the daemon's user"},
    kPd,
    {"type", "1 or 2"},
};
constexpr Field kPdFields[] = {{"pd", "number"}, kUsers};
constexpr Field kCqFields[] = {
    {"cq", "number"},
    {"entries", "completions that each engine may write ahead"},
    {"unread", "completions that were not polled yet"},
    kUsers,
    {"channel", "whether it has a completion channel"},
};
constexpr Field kSrqFields[] = {
    {"srq", "number"},
    kPd,
    {"entries", "receives that fit"},
    {"posted", "receives posted and not used yet"},
    kUsers,
    {"xrc_domain", "XRC domain"},
};
constexpr Field kAhFields[] = {
    {"ah", "number"},
    kPd,
    {"remote", "destination"},
    {"mac", "Ethernet address on the way there"},
};
constexpr Field kXrcFields[] = {
    {"xrc_domain", "number"},
    {"engine", "engine that serves what belongs to it"},
    {"file", "whether it has a file, by which others open it"},
};
constexpr Field kFlowFields[] = {
    {"flow", "number"},
    {"priority", "0 comes first"},
    {"qpn", "first queue pair that gets frames"},
    {"qps", "queue pairs among which frames are spread"},
    {"packets", "frames given"},
    {"bytes", "bytes given, without FCS"},
};

constexpr Field kGuesses[] = {
    {"qpn", "a queue pair that does not exist"},
    {"source", "a queue pair that is connected to another address"},
    {"psn", "a PSN more than 65536 away from the expected one"},
    {"rkey", "memory that its key does not open"},
    {"qkey", "a datagram queue pair with another Q_Key"},
    {"epoch", "another life of the connection (HELLO, SACK)"},
    {"cm_id", "a connection that the connection manager does not have"},
};

// The names are those of rdma-resource(8) where it has one.
constexpr ObjectKind kObjectKinds[] = {
    {"qp", message::Kind::qp, "Queue pairs", kQpFields},
    {"cm_id", message::Kind::cm_id, "Ids of rdma_cm: connections and listeners", kCmFields},
    {"mr", message::Kind::mr, "Memory regions", kMrFields},
    {"mw", message::Kind::window, "Memory windows", kMwFields},
    {"pd", message::Kind::pd, "Protection domains", kPdFields},
    {"cq", message::Kind::cq, "Completion queues", kCqFields},
    {"srq", message::Kind::srq, "Shared receive queues", kSrqFields},
    {"ah", message::Kind::address_handle, "Address handles", kAhFields},
    {"xrcd", message::Kind::xrc_domain, "XRC domains", kXrcFields},
    {"flow", message::Kind::flow, "Receive rules of raw packet queue pairs", kFlowFields},
};

std::string text_of(const char* title, std::span<const Field> fields) {
  std::size_t width = 0;
  for (const Field& field : fields) width = std::max(width, field.name.size());
  std::string text = title;
  for (const Field& field : fields) text += fmt::format("\n  {:<{}}  {}", field.name, width, field.meaning);
  return text;
}

}  // namespace

bool ObjectKind::has(std::string_view field) const {
  return std::ranges::find(fields, field, &Field::name) != fields.end();
}

std::span<const ObjectKind> object_kinds() { return kObjectKinds; }

std::string fields_text(const ObjectKind& kind) {
  return text_of("Columns, and keys of the JSON, beside device, client, pid and command:", kind.fields);
}

std::string guesses_text() {
  return text_of("Columns, and keys of the JSON's guesses: frames and messages for", kGuesses) +
         "\nA few are accidents; thousands are guesses.";
}

}  // namespace uroce::cli
