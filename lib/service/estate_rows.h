// The rows of an estate (estate.h): the objects of clients, each with all that another daemon needs to go on with it.
//
// Objects are named by the clients' numbers. A row follows those that it names. The rows of a device follow its
// DeviceRow, and a DeviceRow the ProgramRow of its program. Descriptors are numbers in Estate::fds.
//
// A successor may be of another release, and both use the newest version that they have in common. So raise
// kEstateVersion with every change of these structures, those of the protocol in them included. Name new members by
// Writer::since(), and give a new row a kSince.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "message/memory_messages.h"
#include "message/operator_messages.h"
#include "message/protocol.h"
#include "message/public_types.h"
#include "message/qp_messages.h"

namespace uroce::service {

inline constexpr uint32_t kEstateVersion = 2;
/// The oldest version that this release reads, and can write.
inline constexpr uint32_t kOldestEstateVersion = 1;

enum class Row : uint8_t {
  program = 1,
  device = 2,
  piece = 3,
  pd = 4,
  segments = 5,
  region = 6,
  window = 7,
  channel = 8,
  cq = 9,
  srq = 10,
  address_handle = 11,
  qp = 12,
  prepared = 30,
  flow = 31,
  keys = 32,  // device_rows.h
  qpns = 33,
  addresses = 34,
  counters = 35,
  xrc_domain = 36,  // xrc_rows.h
  xrc_target = 37,
  // These are in cm_rows.h.
  cm_manager = 40,
  cm_agent = 41,
  cm_connection = 42,
  cm_outgoing = 43,
  cm_incoming = 44,
  cm_program = 45,
  cm_channel = 46,
  cm_id = 47,
  cm_event = 48,
};

/// The version that a row came with.
template <class T>
constexpr uint32_t since() {
  if constexpr (requires { T::kSince; }) return T::kSince;
  return kOldestEstateVersion;
}

struct ProgramRow {
  static constexpr Row kRow = Row::program;
  uint32_t id = 0;
  uint32_t protocol = 0;  ///< that its library and the daemon speak
  bool has_packet_socket = false;
  uint32_t socket = 0;  ///< descriptor
  static void fields(auto& self, auto& archive) {
    archive(self.id, self.protocol, self.has_packet_socket, self.socket);
  }
};

struct DeviceRow {
  static constexpr Row kRow = Row::device;
  uint32_t number = 0;  ///< of the program's; the rows of a program begin with 0
  uint32_t id = 0;      ///< by which the operator knows it
  std::string name{};   ///< empty: the program has none open under this number
  uint64_t calls = 0;
  uint64_t errors = 0;
  uint32_t async_pipe = 0;  ///< descriptor
  message::Place doorbells{};
  /// By engine: where its readers of the doorbell rings are, and the place of the large ring, if any.
  std::vector<std::pair<std::vector<uint32_t>, message::Place>> rings{};
  uint32_t pieces = 0;  ///< PieceRows that follow
  message::Traffic traffic{};
  static void fields(auto& self, auto& archive) {
    archive(self.number, self.id, self.name, self.calls, self.errors, self.async_pipe, self.doorbells, self.rings,
            self.pieces);
    archive.since(2, self.traffic);
  }
};

/// A piece of the device's queue memory.
struct PieceRow {
  static constexpr Row kRow = Row::piece;
  uint32_t fd = 0;
  uint64_t bytes = 0;
  static void fields(auto& self, auto& archive) { archive(self.fd, self.bytes); }
};

struct PdRow {
  static constexpr Row kRow = Row::pd;
  uint32_t id = 0;
  uint32_t number = 0;
  static void fields(auto& self, auto& archive) { archive(self.id, self.number); }
};

/// Segments of the region that follows. `fd`: of the estate.
struct SegmentsRow {
  static constexpr Row kRow = Row::segments;
  std::vector<message::Segment> segments{};
  static void fields(auto& self, auto& archive) { archive(self.segments); }
};

struct RegionRow {
  static constexpr Row kRow = Row::region;
  uint32_t id = 0;
  uint32_t pd = 0;
  uint32_t key = 0;
  bool usable = true;
  bool null = false;
  uint64_t base = 0;
  uint64_t length = 0;
  uint64_t address = 0;
  AccessFlags access{};
  bool writable = false;  ///< its mapping
  bool gone = false;      ///< the client has removed its pages, and it has ended but for its number
  static void fields(auto& self, auto& archive) {
    archive(self.id, self.pd, self.key, self.usable, self.null, self.base, self.length, self.address, self.access,
            self.writable);
    archive.since(2, self.gone);
  }
};

/// A registration whose segments are still coming; those that came stand before it.
struct PreparedRow {
  static constexpr Row kRow = Row::prepared;
  static constexpr uint32_t kSince = 2;
  message::PrepareMemory planned{};
  static void fields(auto& self, auto& archive) { archive(self.planned); }
};

struct WindowRow {
  static constexpr Row kRow = Row::window;
  uint32_t id = 0;
  uint32_t pd = 0;
  WindowType type{};
  uint32_t key = 0;        ///< the first
  uint32_t bound_key = 0;  ///< 0: it is not bound
  uint32_t region = 0;     ///< key
  uint32_t qpn = 0;
  uint64_t address = 0;
  uint64_t length = 0;
  AccessFlags access{};
  static void fields(auto& self, auto& archive) {
    archive(self.id, self.pd, self.type, self.key, self.bound_key, self.region, self.qpn, self.address, self.length,
            self.access);
  }
};

struct ChannelRow {
  static constexpr Row kRow = Row::channel;
  uint32_t id = 0;
  uint32_t read_end = 0;  ///< descriptors
  uint32_t write_end = 0;
  bool closed = false;  ///< completion queues alone have it, and `id` is for their rows
  static void fields(auto& self, auto& archive) {
    archive(self.id, self.read_end, self.write_end);
    archive.since(2, self.closed);
  }
};

struct CqRow {
  static constexpr Row kRow = Row::cq;
  uint32_t id = 0;
  uint32_t number = 0;
  uint32_t channel = 0;  ///< 0 for none
  uint32_t entries = 0;
  bool ignores_overrun = false;
  message::Place header{};
  message::Place ring_place{};
  uint16_t moderation_count = 0;
  uint16_t moderation_us = 0;
  std::vector<std::pair<uint32_t, bool>> rings{};  ///< by engine: the next slot, and whether the queue is in error
  bool channel_closed = false;                     ///< `channel` is of a row that says so
  static void fields(auto& self, auto& archive) {
    archive(self.id, self.number, self.channel, self.entries, self.ignores_overrun, self.header, self.ring_place,
            self.moderation_count, self.moderation_us, self.rings);
    archive.since(2, self.channel_closed);
  }
};

struct SrqRow {
  static constexpr Row kRow = Row::srq;
  uint32_t id = 0;
  uint32_t number = 0;
  uint32_t pd = 0;
  uint32_t max_wr = 0;
  uint32_t max_sge = 0;
  message::Place place{};
  uint32_t engine = 0;
  uint32_t next = 0;
  uint32_t xrc_domain = 0;  ///< number; 0: it is of none
  uint32_t xrc_cq = 0;
  static void fields(auto& self, auto& archive) {
    archive(self.id, self.number, self.pd, self.max_wr, self.max_sge, self.place, self.engine, self.next);
    archive.since(2, self.xrc_domain, self.xrc_cq);
  }
};

struct AddressHandleRow {
  static constexpr Row kRow = Row::address_handle;
  uint32_t id = 0;
  uint32_t number = 0;
  uint32_t pd = 0;
  std::array<uint8_t, 66> headers{};  ///< wire::RouteTemplate
  uint8_t length = 0;
  uint8_t l3_offset = 0;
  uint8_t ip_version = 0;
  uint32_t ipv4_partial_sum = 0;
  std::array<uint8_t, 6> mac{};
  std::array<uint8_t, 16> dgid{};
  uint32_t flow_label = 0;
  bool loopback = false;
  bool multicast = false;
  static void fields(auto& self, auto& archive) {
    archive(self.id, self.number, self.pd, self.headers, self.length, self.l3_offset, self.ip_version,
            self.ipv4_partial_sum, self.mac, self.dgid, self.flow_label, self.loopback, self.multicast);
  }
};

struct QpRow {
  static constexpr Row kRow = Row::qp;
  uint32_t id = 0;
  message::CreateQp created{};  ///< with the capacities in force, and no steps
  uint32_t qpn = 0;
  bool on_large_doorbells = false;
  message::Place place{};
  std::vector<std::array<uint8_t, 16>> groups{};
  std::vector<std::byte> snapshot{};  ///< transport::write_snapshot()
  static void fields(auto& self, auto& archive) {
    archive(self.id, self.created, self.qpn, self.on_large_doorbells, self.place, self.groups);
    archive.many(self.snapshot);
  }
};

struct FlowRow {
  static constexpr Row kRow = Row::flow;
  static constexpr uint32_t kSince = 2;
  uint32_t id = 0;
  uint64_t number = 0;  ///< of the device's; a later rule has a larger one
  message::CreateFlow created{};
  std::vector<std::pair<uint64_t, uint64_t>> counts{};  ///< by engine: packets and bytes
  static void fields(auto& self, auto& archive) { archive(self.id, self.number, self.created, self.counts); }
};

}  // namespace uroce::service
