// One engine against a hostile network and a hostile application. The input is a program: frames that are nearly right,
// time steps, posts, and bytes written straight into queues and doorbells. For any input, nothing outside a region
// is written, all sent frames parse, and each poll does a bounded amount of work.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "tests/fuzz/input.h"
#include "tests/support/encode.h"
#include "tests/support/test_endpoint.h"

namespace {

using namespace uroce;
using namespace uroce::test;

constexpr std::size_t kRegion = 8192;
constexpr std::size_t kQps = 7;
constexpr uint32_t kXrcDomain = 1;
constexpr CongestionAlgorithm kAlgorithms[] = {CongestionAlgorithm::none, CongestionAlgorithm::dcqcn,
                                               CongestionAlgorithm::swift};
const Gid kGroup = Gid::from_ipv4(0xe0000107);
constexpr AccessFlags kAll = AccessFlags(Access::local_write) | Access::remote_write | Access::remote_read |
                             Access::remote_atomic | Access::remote_invalidate | Access::flush_global;

EndpointOptions endpoint_options() {
  EndpointOptions options;
  options.engine.max_qps = 16;
  options.engine.long_windows = 64;              // more than the queue pairs need, and quickly made
  options.engine.settings.parking_frames = 256;  // more than an input has
  options.engine.check_icrc = false;
  options.engine.window_packets = 16;
  return options;
}

/// Seven QPs: 2 and 3 talk to each other, 4 to a peer that is the input, with a shared receive queue; 5 is UC with the
/// same peer; 6 is UD, in a multicast group, and sends to itself and to the group;
/// 7 is an XRC target with the peer, and 8 an initiator. The input's last byte chooses the
/// congestion control of those that have one.
class Program {
 public:
  explicit Program(std::span<const uint8_t> bytes) : in_(bytes) {
    peer_.gid = Gid::from_ipv4(0x0a000002);
    peer_.mac.bytes[5] = 2;
    wire::Route to_group = make_route(endpoint_.options(), peer_);
    to_group.dgid = kGroup;
    handles_[0] = endpoint_.make_ah(make_route(endpoint_.options(), endpoint_.options()), true);
    handles_[1] = endpoint_.make_ah(to_group);
    endpoint_.engine().groups().join(kGroup, 6);
    for (std::size_t i = 0; i < kQps; ++i) {
      TestQp::Options options;
      options.qpn = static_cast<uint32_t>(2 + i);
      options.cap = {8, 8, 2, 2, 64};
      options.send_cq = options.recv_cq = i == 0 ? &small_cq_ : &cq_;
      if (i == 2) options.srq = &srq_;
      if (!bytes.empty()) options.congestion = kAlgorithms[bytes.back() % std::size(kAlgorithms)];
      if (i == 3) options.type = QpType::uc;
      if (i == 4) options.type = QpType::ud;
      if (i == 5) options.type = QpType::xrc_target;
      if (i == 5) options.srq = &xrc_srq_;
      if (i == 5) options.xrc_domain = kXrcDomain;
      if (i == 6) options.type = QpType::xrc_initiator;
      qps_[i] = &endpoint_.make_qp(options);
      connect(i);
    }
  }

  void run() {
    for (int steps = 0; !in_.empty() && steps < 400; ++steps) {
      step();
      poll();
    }
    for (int i = 0; i < 50; ++i) {
      now_ += Nanos(1'000'000);
      poll();
    }
    require(endpoint_.guards_intact(), "memory outside a region was written");
    require(intact(), "a region without local write was written");
  }

 private:
  void connect(std::size_t i) {
    static constexpr uint32_t kPeers[] = {3, 2, 0x99, 0x99, 0, 0x99, 0x99};
    ConnectOptions options;
    options.dest_qpn = kPeers[i];
    options.sq_psn = 0xfffff0;
    options.rq_psn = 0xfffff0;
    options.mtu = Mtu::mtu256;
    options.timeout = 6;
    options.max_rd_atomic = options.max_dest_rd_atomic = 2;
    options.min_rnr_timer = 2;
    const bool loopback = i < 2;
    qps_[i]->connect(options, make_route(endpoint_.options(), loopback ? endpoint_.options() : peer_), loopback);
  }

  bool intact() { return find_mismatch(sealed_.bytes(), sealed_.stream()) == kRegion; }

  void poll() {
    const std::size_t most = std::size_t{endpoint_.options().engine.burst} * 8;
    for (int turn = 0; turn < 16; ++turn) {
      const bool busy = endpoint_.engine().poll(endpoint_.sink(), now_);
      const auto sent = endpoint_.sink().take();
      require(sent.size() <= most, "one poll sent more than its bursts");
      for (const SentFrame& frame : sent) {
        const auto packet = wire::parse(frame.bytes);
        require(packet.has_value(), "a frame was sent that does not parse");
        if (frame.loopback) endpoint_.inject(frame.bytes, now_);
      }
      if (!busy) break;
    }
  }

  TestRegion& any_region() {
    TestRegion* const regions[] = {&open_, &open_, &open_, &sealed_};
    return *regions[in_.take<uint8_t>() % 4];
  }

  Sge any_sge() {
    const TestRegion& region = any_region();
    Sge sge = region.sge(in_.below(kRegion), in_.below(2048));
    const auto how = in_.take<uint8_t>();
    if (how == 0) sge.length = in_.take<uint32_t>();
    if (how == 1) sge.lkey = in_.take<uint32_t>();
    if (how == 2) sge.addr = in_.take<uint64_t>();
    return sge;
  }

  wire::Packet any_packet(const TestQp& qp) {
    static constexpr uint8_t kLast = static_cast<uint8_t>(wire::Opcode::rc_send_only_inv);
    wire::Packet packet;
    packet.bth.opcode = static_cast<wire::Opcode>(in_.take<uint8_t>() % (kLast + 2));
    if (packet.op().name == nullptr) packet.bth.opcode = wire::Opcode::cnp;
    fit_transport(packet, qp);
    packet.bth.dest_qpn = qp.qpn();
    const QpAttr attr = qp.query();
    const uint32_t base = packet.op().flags.has(wire::Op::request) ? attr.rq_psn : attr.sq_psn;
    packet.bth.psn = Psn(base + static_cast<uint32_t>(in_.take<int8_t>() / 16));
    const auto flags = in_.take<uint8_t>();
    packet.bth.ack_request = (flags & 1) != 0;
    packet.bth.solicited = (flags & 2) != 0;
    if ((flags & 0xf0) == 0xf0) packet.bth.psn = Psn(in_.take<uint32_t>());
    const TestRegion& region = any_region();
    packet.reth = {region.va() + in_.below(kRegion), region.key(), in_.below(2048)};
    if ((flags & 0x70) == 0x10) packet.reth.length = in_.take<uint32_t>();
    packet.atomic = {packet.reth.va & ~uint64_t{flags & 4u ? 0u : 7u}, region.key(), in_.take<uint16_t>(), 5};
    packet.aeth = {in_.take<uint8_t>(), in_.take<uint8_t>()};
    packet.imm = (flags & 8) != 0 ? region.key() : in_.take<uint32_t>();
    packet.xrceth = {0, (flags & 0x70) == 0x30 ? in_.take<uint8_t>() : xrc_srq_.srq().id};
    packet.deth = {(flags & 0x70) == 0x20 ? in_.take<uint32_t>() : ConnectOptions{}.qkey, 0, 7};
    return packet;
  }

  /// The opcode's counterpart in the QP's transport, mostly.
  void fit_transport(wire::Packet& packet, const TestQp& qp) {
    const bool uc = qp.qpn() == 5;
    if (qp.qpn() > 6 && wire::transport_of(packet.bth.opcode) == wire::Transport::rc) {
      packet.bth.opcode = wire::as(wire::Transport::xrc, packet.bth.opcode);
    }
    if ((!uc && qp.qpn() != 6) || in_.take<uint8_t>() % 16 == 0) return;
    const auto opcode = static_cast<uint8_t>(packet.bth.opcode);
    if (uc) packet.bth.opcode = static_cast<wire::Opcode>(0x20 + opcode % 12);
    if (!uc) packet.bth.opcode = (opcode & 1) != 0 ? wire::Opcode::ud_send_only : wire::Opcode::ud_send_only_imm;
  }

  void send_frame(bool mutate) {
    const std::size_t which = in_.take<uint8_t>() % kQps;
    wire::Packet packet = any_packet(*qps_[which]);
    wire::Route route = make_route(which >= 2 ? peer_ : endpoint_.options(), endpoint_.options());
    if (which == 4 && in_.take<uint8_t>() % 4 == 0) {
      packet.bth.dest_qpn = kMulticastQpn;
      route.dgid = kGroup;
    }
    static constexpr std::size_t kLengths[] = {256, 256, 0, 8, 100, 257};
    const auto shape = in_.take<uint8_t>();
    if (shape >= 128) route.traffic_class = 3;  // congestion experienced
    const std::size_t kind = shape % 7;
    std::size_t length = kind < 6 ? kLengths[kind] : in_.below(600);
    if (!packet.op().flags.has(wire::Op::payload)) length = 0;
    const std::vector<std::byte> payload(length, std::byte{0x5a});
    Frame frame(wire::kMaxHeaderBytes + length + 8);
    frame.resize(test::encode(frame, packet, route, payload));
    for (uint32_t n = mutate ? 1 + in_.take<uint8_t>() % 4u : 0; n > 0; --n) {
      frame[in_.below(static_cast<uint32_t>(frame.size()))] = in_.take<std::byte>();
    }
    if (mutate) test::reseal(frame);
    endpoint_.inject(frame, now_);
  }

  void send_noise() {
    Frame frame(in_.take<uint8_t>());
    in_.fill(frame);
    endpoint_.inject(frame, now_);
  }

  void post(TestQp& qp) {
    if (qp.qpn() == 7) return;  // No program sees a target's queues.
    SendRequest request;
    request.opcode = static_cast<WrOpcode>(in_.take<uint8_t>() % 17);
    request.flags = SendFlags::from_bits(in_.take<uint8_t>() & 7u);
    const Sge sges[] = {any_sge(), any_sge()};
    request.sges = std::span(sges).first(in_.take<uint8_t>() % 3u);
    const TestRegion& region = any_region();
    request.remote_addr = region.va() + in_.below(kRegion);
    request.rkey = region.key();
    request.imm_or_key = region.key();
    const auto where = in_.take<uint8_t>();
    request.ah = where < 8 ? in_.take<uint32_t>() : handles_[where % 2];
    request.remote_qpn = where % 2 != 0 ? kMulticastQpn : 6;
    request.remote_qkey = ConnectOptions{}.qkey;
    qp.post_send(request);
  }

  void receive(TestQp& qp) {
    if (qp.qpn() == 8) return;  // It has no receive queue.
    const Sge sges[] = {any_sge(), any_sge()};
    qp.post_recv({.wr_id = 1, .sges = std::span(sges).first(in_.take<uint8_t>() % 3u)});
  }

  /// An XRC queue goes, and comes again.
  void replace_xrc_srq() {
    endpoint_.engine().detach_srq(xrc_srq_.srq());
    endpoint_.engine().attach_srq(xrc_srq_.srq());
  }

  /// Bytes and indices straight into a ring, as a hostile process would.
  void scribble(queues::RingPlace ring) {
    if (ring.entries == 0) ring = srq_.ring();
    const auto how = in_.take<uint8_t>();
    if ((how & 1) != 0) in_.fill({ring.slot(in_.take<uint8_t>()), ring.stride});
    if ((how & 2) != 0) ring.header->producer.store(in_.take<uint32_t>());
    if ((how & 4) != 0) ring.header->producer.fetch_add(in_.take<uint8_t>());
    if ((how & 8) != 0) ring.header->consumer.store(in_.take<uint32_t>());
    if ((how & 16) != 0) ring.header->wants_doorbell.store(in_.take<uint32_t>());
  }

  void change_state(std::size_t i) {
    switch (in_.take<uint8_t>() % 6) {
      case 0: qps_[i]->set_state(QpState::error); break;
      case 1:
        if (qps_[i]->state() == QpState::rts) qps_[i]->set_state(QpState::sqd, true);
        break;
      case 2:
        if (qps_[i]->state() == QpState::sqd || qps_[i]->state() == QpState::sqe) qps_[i]->set_state(QpState::rts);
        break;
      default:
        qps_[i]->set_state(QpState::reset);
        connect(i);
        break;
    }
  }

  void step() {
    const auto op = in_.take<uint8_t>();
    const std::size_t i = op / 16 % kQps;
    switch (op % 16) {
      case 8: now_ += Nanos(int64_t{1} << in_.take<uint8_t>() % 31); break;
      case 9: post(*qps_[i]); break;
      case 10: receive(*qps_[i]); break;
      case 11:
        if (qps_[i]->qpn() == 7) return scribble(xrc_srq_.ring());
        scribble(op >= 128 ? qps_[i]->recv_ring() : qps_[i]->send_ring());
        qps_[i]->ring();
        break;
      case 12:
        endpoint_.doorbells().ring(stray_flag_, in_.take<uint32_t>() | 1);
        stray_flag_.rung.store(0);
        in_.fill({endpoint_.doorbell_memory() + in_.below(512), 8});
        break;
      case 13: change_state(i); break;
      case 14: endpoint_.sink().set_room(op >= 128 ? SIZE_MAX : in_.take<uint8_t>() % 4u); break;
      case 15:
        while (cq_.poll()) {
        }
        if (op >= 200) scribble(small_cq_.place());
        if (op < 64) srq_.set_limit(in_.take<uint8_t>());
        if (op >= 64 && op < 128) replace_xrc_srq();
        break;
      case 7: send_noise(); break;
      case 5:
      case 6: send_frame(true); break;
      default: send_frame(false); break;
    }
  }

  Input in_;
  TestEndpoint endpoint_{endpoint_options()};
  EndpointOptions peer_;
  TestRegion& open_ = endpoint_.make_region(kRegion, kAll);
  TestRegion& sealed_ = endpoint_.make_region(kRegion, Access::remote_read);
  TestCq& cq_ = endpoint_.make_cq(256);
  TestCq& small_cq_ = endpoint_.make_cq(4);
  TestSrq& srq_ = endpoint_.make_srq(8, 2);
  TestSrq& xrc_srq_ = endpoint_.make_xrc_srq(kXrcDomain, cq_, 8, 2);
  queues::DoorbellFlag stray_flag_{};
  TestQp* qps_[kQps] = {};
  uint32_t handles_[2] = {};
  Nanos now_{1'000'000};
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  Program({data, size}).run();
  return 0;
}
