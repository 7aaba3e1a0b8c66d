#include "record/checks.h"

#include <algorithm>
#include <bit>
#include <initializer_list>

#include <fmt/format.h>

#include "settings/table.h"
#include "transport/qp/state.h"

namespace uroce::record {
namespace {

// 146 years, so that no sum of two overflows.
constexpr Nanos kLatest{int64_t{1} << 62};
// The most that control allows, and more than any recording has.
constexpr uint32_t kMostEntries = 1u << 20;
constexpr uint32_t kMostStride = 4096;
constexpr uint32_t kMostWindow = 4096;
constexpr uint32_t kMostLongWindows = 1u << 16;
constexpr uint32_t kMostBurst = 1024;
constexpr uint32_t kMostPayload = 65535;
constexpr uint32_t kQpns = 1u << 24;
// More than any address space has.
constexpr uint64_t kMostRegion = uint64_t{1} << 57;

struct Range {
  const char* name;
  uint64_t value, least, most;
};
void check_ranges(const Record& record, std::initializer_list<Range> ranges) {
  for (const Range& range : ranges) {
    if (range.value >= range.least && range.value <= range.most) continue;
    refuse(record, fmt::format("{} is {}; it is {} to {}", range.name, range.value, range.least, range.most));
  }
}

void check_ring(const Record& record, const RingRecord& ring, std::size_t least_stride) {
  const bool none = ring.entries == 0;
  const bool sized = std::has_single_bit(ring.entries) && ring.entries <= kMostEntries && ring.stride >= least_stride &&
                     ring.stride <= kMostStride;
  // Nothing counts as posted before its own record (ShadowRing::describe()).
  if (ring.producer != ring.next) refuse(record, "a ring is not empty");
  if (!none && !sized) refuse(record, fmt::format("a ring has {} entries of {} bytes", ring.entries, ring.stride));
}

}  // namespace

void refuse(const Record& record, const std::string& why) {
  throw Stop{Stop::Why::malformed,
             fmt::format("record {} ({}) is no recorder's: {}", record.number, name_of(record.kind), why)};
}

void check(const Record& record, const Nanos& now) {
  if (now < Nanos(0) || now > kLatest) refuse(record, fmt::format("its time is {} ns", now.count()));
}

void check(const Record& record, const EngineRecord& engine) {
  check_ranges(record, {{"index_bits", engine.index_bits, 0, 6},
                        {"index", engine.index, 0, (1u << (engine.index_bits & 7)) - 1},
                        {"max_qps", engine.max_qps, 1, 1u << 18},
                        {"burst", engine.burst, 1, kMostBurst},
                        {"window_packets", engine.window_packets, 1, kMostWindow},
                        {"long_windows", engine.long_windows, 0, kMostLongWindows},
                        {"vlan", engine.vlan, 0, 4095},
                        {"ethernet_mtu", engine.ethernet_mtu, 0, 65535},
                        {"port_mtu", static_cast<uint64_t>(engine.port_mtu), 1, 5},
                        {"peer_delay", static_cast<uint64_t>(engine.peer_delay.count()), 0, 1'000'000'000'000}});
  if (!std::has_single_bit(engine.max_qps)) refuse(record, fmt::format("max_qps is {}", engine.max_qps));
  if (const auto good = settings::check(engine.settings); !good) refuse(record, good.error().text);
}

void check(const Record& record, const LocalFrameRecord& frame) {
  if (frame.raw != 0) {
    check_ranges(record, {{"payload", frame.payload_length, 0, kMostPayload},
                          {"kept payload", frame.kept, 0, 0},
                          {"header", frame.header_length, 0, wire::HeaderBytes{}.size()}});
    return;
  }
  check_ranges(record, {{"payload", frame.payload_length, 0, mtu_bytes(Mtu::mtu4096)},
                        {"kept payload", frame.kept, 0, std::min(frame.payload_length, kMostKept)},
                        {"pad", frame.pad, 0, 3},
                        {"ip_version", frame.ip_version, 4, 6},
                        {"l3_offset", frame.l3_offset, wire::kEthernetBytes, wire::kEthernetBytes + wire::kVlanBytes}});
  if (frame.ip_version == 5) refuse(record, "its IP version is 5");
  const std::size_t least = frame.l3_offset + (frame.ip_version == 6 ? wire::kIpv6Bytes : wire::kIpv4Bytes) +
                            wire::kUdpBytes + wire::Bth::kBytes;
  check_ranges(record, {{"header", frame.header_length, least, wire::HeaderBytes{}.size()}});
}

void check(const Record& record, const DoorbellRecord& doorbell) {
  check_ranges(record, {{"client", doorbell.client, 0, transport::Owners::kMaxClients - 1}});
}

void check(const Record& record, const RegionRecord& region) {
  check_ranges(record, {{"length", region.length, 0, kMostRegion}, {"alignment", region.alignment, 0, 7}});
}

void check(const Record& record, const CheckRecord& check) {
  check_ranges(record, {{"result", static_cast<uint64_t>(check.result), 0,
                         static_cast<uint64_t>(memory::AccessResult::out_of_bounds)}});
}

void check(const Record& record, const HandleRecord& handle) {
  if (!handle.found) return;
  if (!wire::route_of(handle.route)) refuse(record, "its header is of no route");
  check_ranges(record, {{"flow_label", handle.flow_label, 0, 0xfffff}});
}

void check(const Record& record, const QpRecord& qp) {
  check(record, qp.now);
  if (transport::name(qp.type) == "?") refuse(record, fmt::format("its type is {}", static_cast<uint32_t>(qp.type)));
  const uint64_t last_position = record.kind == Kind::key_qp ? UINT32_MAX : 0;
  check_ranges(record, {{"QPN", qp.qpn, 1, kQpns - 1},
                        {"max_send_sge", qp.cap.max_send_sge, 0, kMaxSge},
                        {"max_recv_sge", qp.cap.max_recv_sge, 0, kMaxSge},
                        {"max_inline_data", qp.cap.max_inline_data, 0, kMaxInline},
                        {"retransmission", static_cast<uint64_t>(qp.retransmission), 0, 3},
                        {"congestion", static_cast<uint64_t>(qp.congestion), 0, 3},
                        {"the send queue's first position", qp.sq.next, 0, last_position}});
  check_ring(record, qp.sq, queues::send_stride(qp.cap.max_send_sge, qp.cap.max_inline_data));
  check_ring(record, qp.rq, queues::recv_stride(qp.cap.max_recv_sge));
  const bool target = qp.type == QpType::xrc_target;
  const bool receives = target || qp.type == QpType::xrc_initiator || qp.has_srq || qp.rq.entries != 0;
  const bool completes = target || (qp.has_send_cq && (qp.has_recv_cq || qp.type == QpType::xrc_initiator));
  if (qp.sq.entries == 0 || !receives || !completes || (target && qp.has_srq)) {
    refuse(record, "the queue pair lacks a queue, or has one too many");
  }
}

void check(const Record& record, const SrqRecord& srq) {
  check_ranges(record, {{"max_sge", srq.max_sge, 0, kMaxSge}, {"held", srq.held, 0, queues::kHeldOfXrcQueue}});
  check_ring(record, srq.ring, queues::recv_stride(srq.max_sge));
  if (srq.ring.entries == 0) refuse(record, "it has no ring");
  const bool xrc = srq.xrc_domain != 0;
  if (xrc != srq.has_cq || (xrc && srq.held == 0)) refuse(record, "it is half an XRC queue");
}

void check(const Record& record, const ModifyRecord& modify) {
  check(record, modify.now);
  if (!modify.has_route) return;
  if (modify.route.sgid.is_ipv4() != modify.route.dgid.is_ipv4()) refuse(record, "its route mixes IPv4 and IPv6");
}

void check(const Record& record, const ObjectRecord& object) { check(record, object.now); }

void check(const Record& record, const RingOwnerRecord& ring) { check(record, ring.now); }

void check(const Record& record, const RedirectRecord& redirect) { check(record, redirect.now); }

void check(const Record& record, const FlowRecord& flow) {
  check_ranges(record, {{"type", static_cast<uint64_t>(flow.type), 0, static_cast<uint64_t>(FlowType::sniffer)},
                        {"queue pairs", flow.qpns, 0, kMaxIndirection}});
  if (flow.qpns != 0 && !std::has_single_bit(flow.qpns)) {
    refuse(record, fmt::format("it spreads over {} queue pairs", flow.qpns));
  }
}

void check(const Record& record, const Prefix& prefix) {
  check_ranges(record, {{"prefix", prefix.bits, 0, prefix.address.is_ipv4() ? 32u : 128u}});
}

}  // namespace uroce::record
