// What clients and the daemon say to each other. One request, one reply, in order, each one packet of a
// SOCK_SEQPACKET socket; descriptors travel beside it. Raise kProtocol with every change of this file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <uroce/types.h>
#include <uroce/verbs.h>

#include "message/codec.h"

namespace uroce::message {

inline constexpr uint32_t kMagic = 0x65'63'6f'72;  // "roce"
inline constexpr uint32_t kProtocol = 7;
/// Bytes of one packet, and descriptors beside it (SCM_MAX_FD is 253).
inline constexpr std::size_t kMaxPacket = 65536;
inline constexpr std::size_t kMaxFds = 200;
/// From RESET to RTS, and as many again.
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
  // The connection manager's (cm_messages.h), on a connection with or without a device. The first and the last of them:
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
};

enum class Kind : uint8_t { pd = 1, mr = 2, channel = 3, cq = 4, srq = 5, qp = 6, address_handle = 7, window = 8 };

/// In front of every packet.
struct RequestHeader {
  Op op{};
  uint32_t sequence = 0;
  template <class A>
  void fields(A& a) {
    a(op, sequence);
  }
};

/// A piece of queue memory that the client has not seen before; its descriptor comes with the reply, chunks first.
struct Chunk {
  uint32_t index = 0;
  uint64_t bytes = 0;
  template <class A>
  void fields(A& a) {
    a(index, bytes);
  }
};

/// In front of every reply. With an error nothing follows it.
struct ReplyHeader {
  uint32_t sequence = 0;
  int32_t error = 0;  ///< errno value
  std::string text{};
  std::vector<Chunk> chunks{};
  template <class A>
  void fields(A& a) {
    a(sequence, error, text, chunks);
  }
};

struct Empty {
  template <class A>
  void fields(A&) {}
};

/// Queue memory of one object.
struct Place {
  uint32_t chunk = 0;
  uint64_t offset = 0;
  uint64_t bytes = 0;
  template <class A>
  void fields(A& a) {
    a(chunk, offset, bytes);
  }
};

/// DeviceInfo as it travels.
struct Device : DeviceInfo {
  template <class A>
  void fields(A& a) {
    a(name, driver, mac.bytes);
    std::vector<GidBytes> table;
    for (const Gid& gid : gids) table.push_back({gid.bytes});
    a(table);
    gids.clear();
    for (const GidBytes& gid : table) gids.push_back({gid.bytes});
    a(active_mtu, link_up, engines, max_qp, max_qp_wr, max_cq, max_cqe, max_mr, max_mw, max_srq, max_ah,
      max_multicast_attach, max_sge, max_inline, max_rd_atomic, max_message);
  }

 private:
  struct GidBytes {
    std::array<uint8_t, 16> bytes{};
    template <class A>
    void fields(A& a) {
      a(bytes);
    }
  };
};

struct Hello {
  uint32_t magic = kMagic;
  uint32_t protocol = kProtocol;
  uint32_t queue_abi = 0;
  std::string version{};  ///< of the program, for messages to people
  template <class A>
  void fields(A& a) {
    a(magic, protocol, queue_abi, version);
  }
};
struct HelloReply {
  Hello daemon{};
  std::vector<Device> devices{};
  template <class A>
  void fields(A& a) {
    a(daemon, devices);
  }
};

struct OpenDevice {
  std::string name{};
  template <class A>
  void fields(A& a) {
    a(name);
  }
};
/// Descriptors: the pipe of asynchronous events, then one per engine that wakes it.
struct OpenDeviceReply {
  Device device{};
  Place doorbells{};
  uint32_t doorbell_entries = 0;
  template <class A>
  void fields(A& a) {
    a(device, doorbells, doorbell_entries);
  }
};
/// What the pipe of asynchronous events carries.
struct AsyncRecord {
  uint32_t type = 0;
  uint32_t object = 0;
};
static_assert(sizeof(AsyncRecord) == 8);

struct Handle {
  uint32_t id = 0;
  template <class A>
  void fields(A& a) {
    a(id);
  }
};

struct Segment {
  uint32_t fd = 0;      ///< index among the packet's descriptors
  uint64_t offset = 0;  ///< in the file
  uint64_t length = 0;
  template <class A>
  void fields(A& a) {
    a(fd, offset, length);
  }
};
struct RegisterMemory {
  uint32_t pd = 0;
  uint64_t base = 0;     ///< what work requests call the first byte
  uint64_t length = 0;   ///< bytes
  uint64_t address = 0;  ///< of the first byte in the client: where it lies in its page, and what alignment fits
  AccessFlags access{};
  std::vector<Segment> segments{};  ///< whole pages, from the first byte's on
  /// Whether peers or completions may store there.
  bool writable() const { return access.has_any(Access::local_write | Access::remote_write | Access::remote_atomic); }
  template <class A>
  void fields(A& a) {
    a(pd, base, length, address, access, segments);
  }
};
struct ReregisterMemory {
  uint32_t region = 0;
  RegisterMemory now{};  ///< all of it, changed or not
  template <class A>
  void fields(A& a) {
    a(region, now);
  }
};
struct RegisterMemoryReply {
  uint32_t id = 0;
  uint32_t key = 0;
  template <class A>
  void fields(A& a) {
    a(id, key);
  }
};

struct CreateWindow {
  uint32_t pd = 0;
  WindowType type{};
  template <class A>
  void fields(A& a) {
    a(pd, type);
  }
};
struct CreateWindowReply {
  uint32_t id = 0;
  uint32_t key = 0;
  template <class A>
  void fields(A& a) {
    a(id, key);
  }
};
/// Of a region.
struct WindowCount {
  uint32_t bound = 0;
  template <class A>
  void fields(A& a) {
    a(bound);
  }
};

struct CreateCq {
  uint32_t entries = 0;
  uint32_t channel = 0;  ///< 0 for none
  template <class A>
  void fields(A& a) {
    a(entries, channel);
  }
};
struct CreateCqReply {
  uint32_t id = 0;
  uint32_t number = 0;  ///< CompletionQueue::id()
  uint32_t entries = 0;
  uint32_t rings = 0;
  Place header{};
  Place ring_place{};
  template <class A>
  void fields(A& a) {
    a(id, number, entries, rings, header, ring_place);
  }
};
struct ResizeCq {
  uint32_t cq = 0;
  uint32_t entries = 0;
  template <class A>
  void fields(A& a) {
    a(cq, entries);
  }
};
struct ResizeCqReply {
  uint32_t entries = 0;
  Place ring_place{};
  template <class A>
  void fields(A& a) {
    a(entries, ring_place);
  }
};

struct CreateSrq {
  uint32_t pd = 0;
  uint32_t max_wr = 0;
  uint32_t max_sge = 0;
  template <class A>
  void fields(A& a) {
    a(pd, max_wr, max_sge);
  }
};
struct CreateSrqReply {
  uint32_t id = 0;
  uint32_t number = 0;
  uint32_t max_wr = 0;
  uint32_t max_sge = 0;
  Place place{};
  template <class A>
  void fields(A& a) {
    a(id, number, max_wr, max_sge, place);
  }
};

struct Cap : QpCap {
  template <class A>
  void fields(A& a) {
    a(max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline_data);
  }
};
struct CreateQp {
  uint32_t pd = 0;
  uint32_t send_cq = 0;
  uint32_t recv_cq = 0;
  uint32_t srq = 0;  ///< 0 for none
  QpType type = QpType::rc;
  Cap cap{};
  bool signal_all = false;
  int32_t engine = -1;
  Retransmission retransmission{};
  CongestionAlgorithm congestion_control{};
  template <class A>
  void fields(A& a) {
    a(pd, send_cq, recv_cq, srq, type, cap, signal_all, engine, retransmission, congestion_control);
  }
};
struct CreateQpReply {
  uint32_t id = 0;
  uint32_t qpn = 0;
  uint32_t engine = 0;
  Cap cap{};
  Place place{};
  template <class A>
  void fields(A& a) {
    a(id, qpn, engine, cap, place);
  }
};

struct Vector : AddressVector {
  template <class A>
  void fields(A& a) {
    a(dgid.bytes, sgid_index, hop_limit, traffic_class, flow_label);
  }
};
struct Attr : QpAttr {
  template <class A>
  void fields(A& a) {
    a(state, cur_state, path_mtu, qkey, rq_psn, sq_psn, dest_qpn, access, static_cast<Cap&>(cap_), av_, pkey_index,
      en_sqd_async_notify, max_rd_atomic, max_dest_rd_atomic, min_rnr_timer, port, timeout, retry_cnt, rnr_retry);
  }
  static Attr from(const QpAttr& attr) {
    Attr out;
    static_cast<QpAttr&>(out) = attr;
    static_cast<QpCap&>(out.cap_) = attr.cap;
    static_cast<AddressVector&>(out.av_) = attr.av;
    return out;
  }
  QpAttr value() const {
    QpAttr out = *this;
    out.cap = cap_;
    out.av = av_;
    return out;
  }

 private:
  Cap cap_{};
  Vector av_{};
};
/// One of those that ModifyQp has.
struct ModifyStep {
  QpAttrMask mask{};
  Attr attr{};
  template <class A>
  void fields(A& a) {
    a(mask, attr);
  }
};
/// Each step as if it came alone, up to the first that fails.
struct ModifyQp {
  uint32_t qp = 0;
  std::vector<ModifyStep> steps{};
  template <class A>
  void fields(A& a) {
    a(qp, steps);
  }
};

struct CreateAddressHandle {
  uint32_t pd = 0;
  Vector av{};
  template <class A>
  void fields(A& a) {
    a(pd, av);
  }
};
struct CreateAddressHandleReply {
  uint32_t id = 0;
  uint32_t number = 0;  ///< what work requests carry
  template <class A>
  void fields(A& a) {
    a(id, number);
  }
};
struct Multicast {
  uint32_t qp = 0;
  std::array<uint8_t, 16> gid{};
  template <class A>
  void fields(A& a) {
    a(qp, gid);
  }
};

struct Destroy {
  Kind kind{};
  uint32_t id = 0;
  template <class A>
  void fields(A& a) {
    a(kind, id);
  }
};

/// To OpenDevice, as Op::capture: a capture of the device until the connection ends. Its descriptor is the memory,
/// rings side by side (capture_ring.h).
struct CaptureReply {
  uint32_t rings = 0;
  uint64_t epoch_ns = 0;  ///< wall-clock time of the records' time 0, ns since 1970
  template <class A>
  void fields(A& a) {
    a(rings, epoch_ns);
  }
};

struct Counters {
  std::vector<std::pair<std::string, uint64_t>> values{};
  template <class A>
  void fields(A& a) {
    a(values);
  }
};
struct Clock {
  uint64_t ns = 0;
  template <class A>
  void fields(A& a) {
    a(ns);
  }
};
/// The table now; DeviceInfo has it as it was.
struct Gids {
  std::vector<std::array<uint8_t, 16>> bytes{};
  template <class A>
  void fields(A& a) {
    a(bytes);
  }
};
struct LinkUp {
  bool up = false;
  template <class A>
  void fields(A& a) {
    a(up);
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
  template <class A>
  void fields(A& a) {
    a(id, pid, uid, command, device, qps, cqs, srqs, mrs, pds, ahs, queue_bytes, registered_bytes, calls, errors);
  }
};
/// The operator's look at the connections, in pieces: those after `after`.
struct ListClients {
  uint32_t after = 0;
  template <class A>
  void fields(A& a) {
    a(after);
  }
};
struct ClientRows {
  std::vector<ClientRow> rows{};
  bool more = false;
  template <class A>
  void fields(A& a) {
    a(rows, more);
  }
};

/// The operator's look at the objects of all clients, in pieces: those after (client, id).
struct ListObjects {
  Kind kind{};
  uint32_t after_client = 0;
  uint32_t after_id = 0;
  template <class A>
  void fields(A& a) {
    a(kind, after_client, after_id);
  }
};
/// Name and value as text, so that both sides can grow apart.
struct ObjectRow {
  uint32_t client = 0;
  uint32_t id = 0;
  std::vector<std::pair<std::string, std::string>> values{};
  template <class A>
  void fields(A& a) {
    a(client, id, values);
  }
};
struct ObjectRows {
  std::vector<ObjectRow> rows{};
  bool more = false;
  template <class A>
  void fields(A& a) {
    a(rows, more);
  }
};

}  // namespace uroce::message
