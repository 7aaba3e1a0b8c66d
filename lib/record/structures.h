// The structures in records.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/peer_list.h"
#include "base/secret.h"
#include "base/time.h"
#include "memory/region_table.h"
#include "queues/layout.h"
#include "transport/core/engine_config.h"
#include "transport/core/seam.h"
#include "transport/datagram/address_handles.h"
#include "transport/datagram/flow_table.h"
#include "transport/engine/owners.h"
#include "transport/qp/spec.h"
#include "wire/packet.h"

namespace uroce::record {

/// EngineConfig; its GIDs, its peers and then Engine::Image::clients follow.
struct EngineRecord {
  Nanos now;
  uint32_t index, index_bits, max_qps, burst, window_packets, long_windows;
  EngineSettings settings;
  Nanos peer_delay;
  std::array<std::byte, sizeof(Secret)> seed;
  uint16_t pkey, vlan;
  bool plain_path, check_icrc;
  uint32_t read_window_packets, ethernet_mtu;
  Mtu port_mtu;
  EthAddr mac;
  uint32_t gids, peers;
};
/// Frames that differ little (record/alike.h). In place of all their bytes, of each of the `alike` ones behind the
/// first stand kMiddleBytes from `middle` on, if that is not 0, and its last `tail` bytes.
struct RunRecord {
  uint16_t alike = 0;
  uint8_t tail = 0, middle = 0;
};
/// One frame; a RunRecord and its first `kept` bytes follow, and then the frames that are like it. Zeros stand for the
/// others.
struct FrameRecord {
  uint16_t length = 0, kept = 0;
  uint8_t lacks_icrc = 0;
};
/// One frame of this thread, or one that was sent; a RunRecord, its header and its kept payload follow, and then the
/// frames that are like it.
struct LocalFrameRecord {
  uint32_t payload_length = 0;
  uint32_t raw_receiver = 0;
  uint16_t header_length = 0;
  uint8_t pad = 0, l3_offset = 0, ip_version = 0;
  uint8_t loopback = 0, raw = 0, reserved = 0;
  uint32_t kept = 0;  ///< bytes of payload that follow its header: of HELLO and SACK

  bool operator==(const LocalFrameRecord&) const = default;
};
struct DoorbellRecord {
  uint32_t ring = 0, token = 0;
  uint16_t client = 0, reserved = 0;
};
/// The new slots of a ring follow, each behind its length (uint16_t).
struct SlotsRecord {
  uint32_t object = 0;  ///< QPN, or shared receive queue
  uint32_t producer = 0;
  uint32_t first = 0;  ///< position of the first slot
  uint32_t slots = 0;
};
struct RegionRecord {
  memory::Key key = 0;
  memory::PdId pd = 0;
  uint64_t address = 0, length = 0;
  uint32_t access = 0;     ///< AccessFlags
  uint32_t alignment = 0;  ///< of its first byte, modulo 8
};
struct CheckRecord {
  uint64_t after = 0;  ///< look-ups of keys without a region since the last such record, with this
  memory::AccessResult result{};
  bool null = false;        ///< no memory
  bool misaligned = false;  ///< for atomic operations
};
/// AddressHandle without what is atomic there.
struct HandleRecord {
  uint64_t after = 0;  ///< look-ups, likewise
  uint32_t id = 0;
  memory::PdId pd = 0;
  bool found = false, loopback = false, multicast = false;
  wire::RouteTemplate route{};
  EthAddr dst_mac{};
  Gid dgid{};
  uint32_t flow_label = 0;
};
struct CompletionRecord {
  uint32_t cq = 0;
  uint32_t reserved = 0;
  queues::Cqe cqe{};
};
struct EventRecord {
  uint32_t object = 0;
  uint32_t type = 0;
};
/// A ring as its consumer finds it.
struct RingRecord {
  uint32_t entries = 0, stride = 0, next = 0, producer = 0, consumer = 0;
};
/// QpSpec. CQs and shared receive queues are named by number and `has`, because 0 may be a number. In a keyframe both
/// rings follow again, and then Engine::image() of it.
struct QpRecord {
  Nanos now{};
  uint32_t qpn = 0;
  QpType type{};
  memory::PdId pd = 0;
  QpCap cap{};
  bool signal_all = false, has_sq = false, has_rq = false, has_send_cq = false, has_recv_cq = false, has_srq = false;
  bool has_held = false, held = false;
  uint64_t held_wr_id = 0;
  Retransmission retransmission{};
  CongestionAlgorithm congestion{};
  uint32_t window_packets = 0, doorbell_ring = 0, send_cq = 0, recv_cq = 0, srq = 0, xrc_domain = 0;
  RingRecord sq{}, rq{};
};
struct SrqRecord {
  uint32_t id = 0;
  memory::PdId pd = 0;
  uint32_t max_sge = 0, xrc_domain = 0, held = 0, limit = 0, cq = 0;
  bool has_cq = false;
  RingRecord ring{};
};
struct ModifyRecord {
  Nanos now{};
  uint32_t qpn = 0;
  QpAttr attr{};
  QpAttrMask mask{};
  bool has_route = false, loopback = false;
  wire::Route route{};
};
/// A QP, ring or shared receive queue, by `object`. More follows by kind.
struct ObjectRecord {
  Nanos now{};
  uint32_t object = 0;
  uint32_t count = 0;
};
struct RingOwnerRecord {
  Nanos now{};
  uint32_t ring = 0;
  transport::Owner owner{};
};
struct RedirectRecord {
  Nanos now{};
  Gid to{};
  EthAddr mac{};
};
/// FlowEntry; `qpns` numbers (uint32_t) of its table follow.
struct FlowRecord {
  uint64_t id = 0;
  uint32_t qpn = 0, tag = 0, qpns = 0;
  FlowType type{};
  uint16_t priority = 0;
  RxHash hash{};
  wire::FlowPattern pattern{};
};

inline constexpr std::array kSizes{sizeof(EngineRecord),     sizeof(EngineSettings), sizeof(QpRecord),
                                   sizeof(SrqRecord),        sizeof(ModifyRecord),   sizeof(HandleRecord),
                                   sizeof(CompletionRecord), sizeof(FlowRecord),     sizeof(LocalFrameRecord),
                                   sizeof(RunRecord),        sizeof(RegionRecord)};

/// Of the payload of HELLO and SACK, which the engine builds and reads, the bytes that are kept.
inline constexpr uint32_t kMostKept = 160;
inline uint32_t kept_payload_of(const transport::TxFrame& frame) {
  if (frame.raw || frame.payload_spans != 1 || frame.payload_length > kMostKept) return 0;
  const std::size_t opcode = frame.l3_offset + (frame.ip_version == 6 ? 40u : 20u) + 8;
  return static_cast<uint8_t>(frame.header[opcode]) >= 0xc0 ? frame.payload_length : 0;
}
/// The record of a frame that the engine sends or hands over.
inline LocalFrameRecord record_of(const transport::TxFrame& frame) {
  return {.payload_length = frame.payload_length,
          .raw_receiver = frame.raw ? frame.raw_receiver : 0,
          .header_length = frame.header_length,
          .pad = frame.pad,
          .l3_offset = frame.l3_offset,
          .ip_version = frame.ip_version,
          .loopback = frame.loopback ? uint8_t{1} : uint8_t{0},
          .raw = frame.raw ? uint8_t{1} : uint8_t{0},
          .kept = kept_payload_of(frame)};
}

}  // namespace uroce::record
