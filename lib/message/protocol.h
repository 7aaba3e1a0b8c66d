// The protocol between programs and the daemon: its version, its operations, and the header of each message. A program
// has one connection, for all its opened devices and for connection management. Requests are handled in order; each has
// one reply, unless its sender wants none. Each message is one packet of a SOCK_SEQPACKET socket; descriptors travel
// beside it.
//
// Programs and the daemon may be of different releases: they speak the newest version that both know (Hello). So raise
// kProtocol with every change of these structures, and name what is new by Writer::since(). A daemon refuses an
// operation that it does not know with EOPNOTSUPP. Records in pipes and in shared memory (AsyncRecord, CaptureRing)
// stay as they are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "message/codec.h"

namespace uroce::message {

inline constexpr uint32_t kMagic = 0x65'63'6f'72;  // "roce"
inline constexpr uint32_t kProtocol = 24;
/// The oldest version that this release speaks, too.
inline constexpr uint32_t kOldestProtocol = 22;
/// Most bytes of one packet, and most descriptors beside it (SCM_MAX_FD is 253).
inline constexpr std::size_t kMaxPacket = 65536;
inline constexpr std::size_t kMaxFds = 200;
/// Steps of one ModifyQp: RESET to RTS takes three.
inline constexpr std::size_t kMaxModifySteps = 6;
inline constexpr const char* kDefaultSocket = "/run/uroce/uroced.sock";

enum class Op : uint16_t {
  hello = 1,
  open_device = 2,
  create_pd = 3,
  register_memory = 4,
  create_channel = 5,
  create_cq = 6,
  create_srq = 7,
  create_qp = 8,
  modify_qp = 9,
  query_qp = 10,
  create_address_handle = 11,
  attach_multicast = 12,
  detach_multicast = 13,
  destroy = 14,
  counters = 15,
  link_up = 16,
  list_clients = 17,
  list_objects = 18,
  resize_cq = 19,
  clock = 20,
  reregister_memory = 21,
  create_window = 22,
  count_windows = 23,
  query_gids = 24,
  capture = 25,
  list_users = 26,
  list_peers = 27,
  resize_srq = 28,
  create_null_region = 29,
  moderate_cq = 30,
  barrier = 31,  ///< nothing: its reply says that all requests before it are done
  list_engines = 32,
  close_device = 33,  ///< frees the device's objects, and its number
  create_flow = 34,
  flow_counters = 35,
  prepare_memory = 36,
  add_segments = 37,
  abandon_memory = 38,  ///< ends what prepare_memory began, if anything
  open_xrc_domain = 40,
  create_xrc_srq = 41,
  create_xrc_target = 42,
  open_xrc_target = 43,
  prove_raw_packets = 44,  ///< of daemons with kTakesPacketSocket; a packet socket comes beside it
  take_over = 45,          ///< of daemons with kHandsOver (succession_messages.h)
  restart = 46,            ///< what the last restart kept, and the next one will
  list_history = 47,
  list_faults = 48,
  add_faults = 49,
  clear_faults = 50,
  list_left = 51,
  // The connection manager's (cm_messages.h). Those that concern a queue pair, too, are calls of its device.
  cm_create_channel = 64,
  cm_destroy_channel = 65,
  cm_take_events = 66,
  cm_create_id = 67,
  cm_destroy_id = 68,
  cm_info = 69,
  cm_bind = 70,
  cm_resolve_addr = 71,
  cm_resolve_route = 72,
  cm_listen = 73,
  cm_connect = 74,
  cm_establish = 75,
  cm_accept = 76,
  cm_reject = 77,
  cm_disconnect = 78,
  cm_notify_established = 79,
  cm_qp_attr = 80,
  cm_set_option = 81,
  cm_join = 82,
  cm_leave = 83,
  cm_migrate = 84,
  cm_raise_event = 85,
};

enum class Kind : uint8_t {
  pd = 1,
  mr = 2,
  channel = 3,
  cq = 4,
  srq = 5,
  qp = 6,
  address_handle = 7,
  window = 8,
  flow = 9,
  xrc_domain = 12,
  cm_id = 13,  ///< of Op::list_objects alone
};

/// The sequence number of a request that has no reply, whatever comes of it.
inline constexpr uint32_t kNoReply = 0;

/// Devices that a program may have opened at a time on one connection.
inline constexpr uint32_t kMaxDevices = 256;

/// The beginning of every request. It never changes.
struct RequestHeader {
  Op op{};
  uint32_t sequence = kNoReply;
  /// The opened device, or with open_device the number that it gets, below kMaxDevices. 0 as well where the operation
  /// needs no device.
  uint32_t device = 0;
  static void fields(auto& self, auto& archive) { archive(self.op, self.sequence, self.device); }
};

/// A new piece of the device's queue memory. Its descriptor comes with the reply, before the others.
struct Chunk {
  uint32_t index = 0;
  uint64_t bytes = 0;
  static void fields(auto& self, auto& archive) { archive(self.index, self.bytes); }
};

/// The beginning of every reply, and all of one with an error. It never changes.
struct ReplyHeader {
  uint32_t sequence = 0;
  int32_t error = 0;  ///< errno value
  std::string text{};
  std::vector<Chunk> chunks{};
  static void fields(auto& self, auto& archive) { archive(self.sequence, self.error, self.text, self.chunks); }
};

struct Empty {
  static void fields(auto&, auto&) {}
};

struct Handle {
  uint32_t id = 0;
  static void fields(auto& self, auto& archive) { archive(self.id); }
};

/// The place of one object's queue memory.
struct Place {
  uint32_t chunk = 0;
  uint64_t offset = 0;
  uint64_t bytes = 0;
  static void fields(auto& self, auto& archive) { archive(self.chunk, self.offset, self.bytes); }
};

struct Destroy {
  Kind kind{};
  uint32_t id = 0;
  static void fields(auto& self, auto& archive) { archive(self.kind, self.id); }
};

}  // namespace uroce::message
