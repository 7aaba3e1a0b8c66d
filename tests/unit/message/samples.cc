// One of every message, each member with a value of its own.
#include "samples.h"

#include "message/cm_messages.h"
#include "message/device_messages.h"
#include "message/hello_messages.h"
#include "message/memory_messages.h"
#include "message/operator_messages.h"
#include "message/protocol.h"
#include "message/qp_messages.h"
#include "message/queue_messages.h"
#include "message/succession_messages.h"
#include "message/xrc_messages.h"

namespace uroce::message {
namespace {

Gid gid(uint8_t first) {
  Gid out;
  for (std::size_t i = 0; i < out.bytes.size(); ++i) out.bytes[i] = static_cast<uint8_t>(first + i);
  return out;
}

AddressVector address_vector() {
  return {.dgid = gid(0x20), .sgid_index = 3, .hop_limit = 63, .traffic_class = 0x68, .flow_label = 0xabcde};
}

QpCap cap() {
  return {.max_send_wr = 101, .max_recv_wr = 102, .max_send_sge = 3, .max_recv_sge = 4, .max_inline_data = 105};
}

QpAttr attr() {
  return {.state = QpState::rts,
          .cur_state = QpState::rtr,
          .path_mtu = Mtu::mtu4096,
          .qkey = 0x01020304,
          .rq_psn = 0x111213,
          .sq_psn = 0x212223,
          .dest_qpn = 0x313233,
          .access = Access::remote_write | Access::remote_read,
          .cap = cap(),
          .av = address_vector(),
          .pkey_index = 0x4142,
          .en_sqd_async_notify = true,
          .max_rd_atomic = 16,
          .max_dest_rd_atomic = 17,
          .min_rnr_timer = 18,
          .port = 2,
          .timeout = 19,
          .retry_cnt = 6,
          .rnr_retry = 5,
          .rate_limit = 0x71727374};
}

FlowFields flow_fields(uint8_t first) {
  return {.eth_destination = {{first, 1, 2, 3, 4, 5}},
          .eth_source = {{first, 6, 7, 8, 9, 10}},
          .eth_type = 0x0800,
          .vlan_tag = 0x7123,
          .ip_source = gid(first),
          .ip_destination = gid(static_cast<uint8_t>(first + 1)),
          .ip_protocol = 17,
          .traffic_class = 0x28,
          .hop_limit = 63,
          .ipv4_flags = 2,
          .flow_label = 0xabcde,
          .source_port = 1234,
          .destination_port = 5678};
}

FlowRule flow_rule() {
  return {.type = FlowType::mc_default,
          .priority = 0x0102,
          .layers = FlowLayer::ipv4 | FlowLayer::udp,
          .value = flow_fields(0x30),
          .mask = flow_fields(0x50),
          .tag = 0x70717273};
}

DeviceInfo device(const std::string& name) {
  return {.name = name,
          .driver = "net_memif",
          .mac = {{0x02, 0x11, 0x22, 0x33, 0x44, 0x55}},
          .gids = {gid(0x40), {}, gid(0x60)},
          .kernel_interface = "eth0",
          .active_mtu = Mtu::mtu2048,
          .link_up = true,
          .sending = Sending::single_refused,
          .engines = 4,
          .max_qp = 11,
          .max_qp_wr = 12,
          .max_cq = 13,
          .max_cqe = 14,
          .max_mr = 15,
          .max_mw = 16,
          .max_srq = 17,
          .max_ah = 18,
          .max_pd = 19,
          .max_multicast_attach = 20,
          .max_flow = 24,
          .max_sge = 21,
          .max_inline = 22,
          .max_rd_atomic = 23,
          .max_message = 0x1122334455667788};
}

std::vector<std::byte> private_data() { return {std::byte{0xde}, std::byte{0xad}, std::byte{0xbe}}; }

CmAddress address(uint8_t first, uint16_t port) { return {.ip = gid(first), .port = port}; }

CmParam param() {
  return {.private_data = private_data(),
          .responder_resources = 7,
          .initiator_depth = 8,
          .flow_control = true,
          .retry_count = 6,
          .rnr_retry_count = 5,
          .srq = true,
          .qpn = 0x515253,
          .qkey = 0x61626364,
          .ece_vendor = 0x717273,
          .ece_options = 0x81828384};
}

CmEvent event() {
  return {.type = CmEventType::rejected,
          .id = 0x71,
          .listener = 0x72,
          .status = -28,
          .param = param(),
          .av = address_vector(),
          .join = 0x0807060504030201,
          .argument = 0x1817161514131211};
}

CmIdInfo info() {
  return {.local = address(0x80, 7471),
          .remote = address(0x90, 7472),
          .device = "uroce0",
          .sgid = gid(0xa0),
          .sgid_index = 9,
          .dgid = gid(0xb0),
          .mtu = Mtu::mtu512,
          .traffic_class = 0x2a,
          .hop_limit = 62,
          .ack_timeout = 21};
}

std::vector<Sample> all;

template <class T>
void add(const char* name, const T& value) {
  Sample sample{.name = name};
  encode(sample.bytes, value);
  encode(sample.oldest, value, kOldestProtocol);
  sample.same_after_decoding = [bytes = sample.bytes] {
    T read;
    std::vector<std::byte> again;
    if (!decode(bytes, read)) return false;
    encode(again, read);
    return again == bytes;
  };
  all.push_back(std::move(sample));
}

Place place(uint32_t n) {
  return {.chunk = n, .offset = uint64_t{0x100000000} + n, .bytes = uint64_t{0x200000000} + n};
}

RegisterMemory register_memory() {
  return {.pd = 1,
          .base = 0x1000000000000002,
          .length = 0x3000000000000004,
          .address = 0x5000000000000006,
          .access = Access::local_write | Access::remote_invalidate,
          .segments = {{.fd = 7, .offset = 8, .length = 9}, {.fd = 10, .offset = 11, .length = 12}},
          .prepared = true};
}

void add_envelopes() {
  add("RequestHeader", RequestHeader{.op = Op::query_gids, .sequence = 0x01020304, .device = 0x05060708});
  add("ReplyHeader", ReplyHeader{.sequence = 5, .error = -6, .text = "why", .chunks = {{.index = 7, .bytes = 8}}});
  add("Empty", Empty{});
  const Hello hello{.queue_abi = 3, .version = "1.2.3", .oldest_queue_abi = 2, .features = 1};
  add("Hello", hello);
  const Hello older{.protocol = 22, .queue_abi = 3, .version = "1.2.3"};
  add("Hello of protocol 22", older);
  add("HelloReply of protocol 22", HelloReply{.daemon = older, .devices = {device("uroce0"), device("uroce1")}});
  add("HelloReply", HelloReply{.daemon = hello, .devices = {device("uroce0"), device("uroce1")}});
  add("OpenDevice", OpenDevice{.name = "uroce0"});
  add("OpenDeviceReply", OpenDeviceReply{.device = device("uroce0"), .doorbells = place(1), .doorbell_entries = 2});
}

void add_memory() {
  add("Handle", Handle{.id = 77});
  add("PrepareMemory", PrepareMemory{.length = 0x3000000000000004, .address = 5, .writable = true, .segments = 6});
  add("AddSegments", AddSegments{register_memory().segments});
  add("RegisterMemory", register_memory());
  add("ReregisterMemory", ReregisterMemory{.region = 99, .now = register_memory()});
  add("RegisterMemoryReply", RegisterMemoryReply{.id = 1, .key = 2});
  add("CreateWindow", CreateWindow{.pd = 1, .type = WindowType::type2});
  add("CreateWindowReply", CreateWindowReply{.id = 1, .key = 2});
  add("WindowCount", WindowCount{.bound = 3});
}

void add_queues() {
  add("CreateCq", CreateCq{.entries = 1, .channel = 2, .ignore_overrun = true});
  add("CreateCqReply",
      CreateCqReply{.id = 1, .number = 2, .entries = 3, .rings = 4, .header = place(5), .ring_place = place(6)});
  add("ModerateCq", ModerateCq{.cq = 1, .count = 2, .period_us = 3});
  add("ResizeCq", ResizeCq{.cq = 1, .entries = 2});
  add("ResizeCqReply", ResizeCqReply{.entries = 1, .ring_place = place(2)});
  add("CreateSrq", CreateSrq{.pd = 1, .max_wr = 2, .max_sge = 3});
  add("CreateSrqReply", CreateSrqReply{.id = 1, .number = 2, .max_wr = 3, .max_sge = 4, .place = place(5)});
  add("ResizeSrq", ResizeSrq{.srq = 1, .max_wr = 2});
  add("ResizeSrqReply", ResizeSrqReply{.max_wr = 1, .place = place(2)});
  add("CreateQp", CreateQp{.pd = 1,
                           .send_cq = 2,
                           .recv_cq = 3,
                           .srq = 4,
                           .type = QpType::ud,
                           .cap = cap(),
                           .signal_all = true,
                           .engine = -1,
                           .retransmission = Retransmission::selective,
                           .congestion_control = CongestionAlgorithm::dcqcn,
                           .steps = {{.mask = QpAttrBit::state, .attr = attr()}}});
  add("CreateQpReply", CreateQpReply{.id = 1,
                                     .qpn = 2,
                                     .engine = 3,
                                     .cap = cap(),
                                     .place = place(4),
                                     .doorbells = place(5),
                                     .doorbell_entries = 6});
  const ModifyStep step{.mask = QpAttrBit::state | QpAttrBit::dest_qpn, .attr = attr()};
  add("Attr", attr());
  add("ModifyStep", step);
  add("ModifyQp", ModifyQp{.qp = 1, .steps = {step, {}}});
  add("CreateAddressHandle", CreateAddressHandle{.pd = 1, .av = address_vector()});
  add("CreateAddressHandleReply", CreateAddressHandleReply{.id = 1, .number = 2});
  add("CreateFlow", CreateFlow{.qps = {1, 2},
                               .rule = flow_rule(),
                               .hash = {.fields = RxHashField::ipv4_source | RxHashField::udp_source_port,
                                        .key = {0x81, 0x82, 0x83}}});
  add("FlowCounters", FlowCounters{.packets = 0x0102, .bytes = 0x030405});
  add("Multicast", Multicast{.qp = 1, .gid = gid(0xc0).bytes});
  add("Destroy", Destroy{.kind = Kind::srq, .id = 2});
  add("OpenXrcDomain", OpenXrcDomain{.create = true});
  add("CreateXrcSrq", CreateXrcSrq{.srq = {.pd = 1, .max_wr = 2, .max_sge = 3}, .domain = 4, .cq = 5});
  add("CreateXrcTarget",
      CreateXrcTarget{
          .domain = 1, .retransmission = Retransmission::selective, .congestion_control = CongestionAlgorithm::dcqcn});
  add("OpenXrcTarget", OpenXrcTarget{.domain = 1, .qpn = 2});
  add("XrcTargetReply", XrcTargetReply{.id = 1, .qpn = 2});
}

void add_device() {
  add("CaptureReply", CaptureReply{.rings = 1, .epoch_ns = 0x0102030405060708});
  add("Counters", Counters{.values = {{"rx_packets", 1}, {"tx_packets", 0x0203040506070809}}});
  add("Clock", Clock{.ns = 0x1112131415161718});
  add("Gids", Gids{.bytes = {gid(1).bytes, gid(2).bytes}});
  add("LinkUp", LinkUp{.up = true});
}

void add_operator() {
  const ClientRow row{.id = 1,
                      .pid = -2,
                      .uid = 3,
                      .command = "cmd",
                      .device = "uroce1",
                      .qps = 4,
                      .cqs = 5,
                      .srqs = 6,
                      .mrs = 7,
                      .pds = 8,
                      .ahs = 9,
                      .queue_bytes = 10,
                      .registered_bytes = 11,
                      .calls = 12,
                      .errors = 13,
                      .traffic = {.rx_packets = 14, .rx_bytes = 15, .tx_packets = 16, .tx_bytes = 17}};
  add("ListClients", ListClients{.after = 1});
  add("ClientRows", ClientRows{.rows = {row, {}}, .more = true});
  add("ListUsers", ListUsers{.after = 1});
  add("UserRows", UserRows{.rows = {{.uid = 1,
                                     .privileged = true,
                                     .refusals = 2,
                                     .budgets = {{"qp", 3, 4}},
                                     .traffic = {.rx_packets = 5, .rx_bytes = 6, .tx_packets = 7, .tx_bytes = 8}}},
                           .more = true});
  add("ListPeers", ListPeers{.device = "uroce1", .after = Gid::from_ipv4(0x0a000001)});
  add("PeerRows",
      PeerRows{.rows = {{.peer = Gid::from_ipv4(0x0a000002), .guesses = {{"qpn", 3}, {"rkey", 4}}, .last_ms = 5}},
               .more = true});
  add("EngineRows", EngineRows{.rows = {{.engine = 1, .values = {{"busy_ns", 2}, {"rounds", 3}}}}});
  add("ListObjects", ListObjects{.kind = Kind::qp, .after_client = 1, .after_id = 2});
  add("ObjectRows",
      ObjectRows{.rows = {{.client = 1, .id = 2, .values = {{"qpn", "0x000123"}, {"state", "RTS"}}}}, .more = true});
}

void add_connection_manager() {
  add("CmChannelReply", CmChannelReply{.channel = 1});
  add("CmInfoReply", CmInfoReply{.info = info()});
  const ModifyStep step{.mask = QpAttrBit::state, .attr = attr()};
  add("CmEventsReply", CmEventsReply{.events = {{.event = event(),
                                                 .has_info = true,
                                                 .known = {.info = info()},
                                                 .steps = {step, step},
                                                 .welcome = CmCall::connect},
                                                {}}});
  add("CmCreateId", CmCreateId{.channel = 1, .space = PortSpace::udp, .type = QpType::ud});
  add("CmBind", CmBind{.id = 1, .local = address(0xd0, 2)});
  add("CmResolve",
      CmResolve{.id = 1, .has_local = true, .local = address(0xd0, 2), .remote = address(0xe0, 3), .timeout_ms = 4});
  add("CmListen", CmListen{.id = 1, .backlog = -2});
  add("CmTerms", CmTerms{.id = 1, .param = param(), .qp = 4});
  add("CmDisconnect", CmDisconnect{.id = 1, .qp = 4});
  add("CmReject", CmReject{.id = 1, .reason = 28, .private_data = private_data()});
  add("CmQpAttr", CmQpAttr{.id = 1, .state = QpState::rtr});
  add("CmSetOption", CmSetOption{.id = 1, .option = CmOption::af_only, .value = 3});
  add("CmGroup", CmGroup{.id = 1, .group = address(0xf0, 2), .token = 0x0102030405060708});
  add("CmRaiseEvent", CmRaiseEvent{.id = 1, .type = CmEventType::user, .status = -2, .argument = 0x0102030405060708});
  add("CmMigrate", CmMigrate{.id = 1, .channel = 2, .taken = 3});
}

void add_succession() {
  add("TakeOver", TakeOver{.version = "1.2.3",
                           .devices = {{.name = "uroce0",
                                        .interface = "eth0",
                                        .mac = {{1, 2, 3, 4, 5, 6}},
                                        .mtu = 1500,
                                        .vlan = 7,
                                        .engines = 2,
                                        .max_qp = 64,
                                        .max_mr = 128}}});
  add("StepHeader", StepHeader{.step = Step::failed, .error = 22, .text = "no"});
  add("BelongingNames", BelongingNames{.names = {"a", "bc"}, .last = false});
  add("SuccessorVersions",
      SuccessorVersions{.estate = {1, 2}, .snapshot = {3, 4}, .protocol = {5, 6}, .queue_abi = {7, 8}});
}

}  // namespace

std::vector<Sample> samples() {
  all.clear();
  add_envelopes();
  add_memory();
  add_queues();
  add_device();
  add_operator();
  add_connection_manager();
  add_succession();
  return all;
}

}  // namespace uroce::message
