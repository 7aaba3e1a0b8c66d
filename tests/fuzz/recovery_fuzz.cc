// Loss recovery against a hostile peer and a hostile network. The first byte of the input chooses: one engine that has
// said HELLO with a peer which is the input, or two engines whose frames the input drops, repeats, delays and changes,
// with a right ICRC. For any input, nothing outside a region is written, all sent frames parse, each work request
// completes once and in order, and nothing stays parked behind a queue pair in error.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>

#include "tests/fuzz/input.h"
#include "tests/support/encode.h"
#include "tests/support/test_endpoint.h"
#include "wire/recovery.h"

namespace {

using namespace uroce;
using namespace uroce::test;

constexpr std::size_t kRegion = 16384;

EndpointOptions options_of(uint8_t number, uint8_t how) {
  EndpointOptions options;
  options.gid = Gid::from_ipv4(0x0a000000u + number);
  options.mac.bytes[5] = number;
  options.seed = number;
  options.engine.max_qps = 4;
  options.engine.long_windows = 16;  // more than the queue pairs need, and quickly made
  options.engine.check_icrc = false;
  options.engine.seed = number;
  options.engine.window_packets = (how & 2) != 0 ? 1024 : 32;
  options.engine.settings.parking_frames = (how & 4) != 0 ? 64 : 5;
  options.engine.settings.retransmission = (how & 8) != 0 ? Retransmission::selective : Retransmission::automatic;
  return options;
}

/// An engine with one RC queue pair, and what its application knows.
class Side {
 public:
  Side(uint8_t number, uint8_t how) : endpoint_(options_of(number, how)) {
    TestQp::Options options;
    options.qpn = number + 1u;
    options.cap = {16, 16, 2, 2, 64};
    options.send_cq = &send_cq_;
    options.recv_cq = &recv_cq_;
    options.signal_all = true;
    qp_ = &endpoint_.make_qp(options);
  }

  void connect(const EndpointOptions& peer, uint32_t peer_qpn) {
    ConnectOptions options;
    options.dest_qpn = peer_qpn;
    options.sq_psn = options.rq_psn = 0xffffe0;
    options.mtu = Mtu::mtu256;
    options.timeout = 8;
    options.max_rd_atomic = options.max_dest_rd_atomic = 3;
    options.min_rnr_timer = 1;
    qp_->connect(options, make_route(endpoint_.options(), peer));
  }

  /// The frames that the engine sends now.
  std::vector<Frame> poll(Nanos now) {
    std::vector<Frame> out;
    for (int turn = 0; turn < 16; ++turn) {
      const bool busy = endpoint_.engine().poll(endpoint_.sink(), now);
      for (SentFrame& sent : endpoint_.sink().take()) {
        const auto packet = wire::parse(sent.bytes);
        require(packet.has_value(), "a frame was sent that does not parse");
        if (const auto hello = wire::Hello::load(packet->payload); hello && packet->bth.opcode == wire::Opcode::hello) {
          epoch_ = hello->epoch;
        }
        out.push_back(std::move(sent.bytes));
      }
      if (!busy) break;
    }
    take_completions();
    return out;
  }

  void post(Input& in) {
    SendRequest request;
    static constexpr WrOpcode kOpcodes[] = {WrOpcode::rdma_write,          WrOpcode::send,
                                            WrOpcode::rdma_read,           WrOpcode::fetch_add,
                                            WrOpcode::rdma_write_with_imm, WrOpcode::rdma_write};
    request.opcode = kOpcodes[in.take<uint8_t>() % std::size(kOpcodes)];
    request.wr_id = posted_;
    const uint32_t length = request.opcode == WrOpcode::fetch_add ? 8 : in.below(8192);
    const Sge sge = open_.sge(in.below(4096), length);
    request.sges = {&sge, 1};
    // Keys of a peer that was made alike: the same.
    request.remote_addr = open_.va() + (in.below(4096) & ~7u);
    request.rkey = open_.key();
    request.compare_add = 1;
    if (qp_->post_send(request)) ++posted_;
  }

  void receive(Input& in) {
    const Sge sge = open_.sge(in.below(4096), 8192);
    qp_->post_recv({.wr_id = 0, .sges = {&sge, 1}});
  }

  void inject(std::span<const std::byte> frame, Nanos now) { endpoint_.inject(frame, now); }

  /// The end: all that was posted completes, and nothing is kept.
  void finish(Nanos now) {
    endpoint_.sink().set_room(SIZE_MAX);
    if (qp_->state() != QpState::error) qp_->set_state(QpState::error);
    for (int i = 0; i < 4; ++i) poll(now);
    require(completed_ == posted_, "a work request did not complete");
    require(endpoint_.engine().parked_frames() == 0, "frames stay parked behind a queue pair in error");
    require(endpoint_.guards_intact(), "memory outside a region was written");
    require(find_mismatch(sealed_.bytes(), sealed_.stream()) == kRegion, "a region that nobody names was written");
  }

  TestEndpoint& endpoint() { return endpoint_; }
  TestQp& qp() { return *qp_; }
  TestRegion& open() { return open_; }
  uint32_t epoch() const { return epoch_; }

 private:
  void take_completions() {
    while (const auto cqe = send_cq_.poll()) {
      require(cqe->wr_id == completed_, "a work request completed out of order, or twice");
      ++completed_;
    }
    while (recv_cq_.poll()) {
    }
  }

  TestEndpoint endpoint_;
  TestRegion& open_ = endpoint_.make_region(kRegion, kAllAccess);
  TestRegion& sealed_ = endpoint_.make_region(kRegion, Access::local_write);
  TestCq& send_cq_ = endpoint_.make_cq(256);
  TestCq& recv_cq_ = endpoint_.make_cq(256);
  TestQp* qp_ = nullptr;
  uint32_t epoch_ = 0;
  uint64_t posted_ = 0;
  uint64_t completed_ = 0;
};

Nanos time_step(Input& in) { return Nanos(int64_t{1} << in.take<uint8_t>() % 25); }

/// The peer is the input.
class Peer {
 public:
  Peer(Input in, uint8_t how) : in_(in), side_(1, how), peer_(options_of(2, 0)) {
    side_.connect(peer_, 3);
    said_ = side_.qp().qp().tx.una;
    side_.poll(now_);
    hello(kEpoch, side_.epoch(), false);
  }

  void run() {
    for (int steps = 0; !in_.empty() && steps < 600; ++steps) {
      step();
      side_.poll(now_);
      require(distance(side_.qp().qp().tx.una, said_) <= 0, "more is acknowledged than was said");
    }
    side_.finish(now_);
  }

 private:
  static constexpr uint32_t kEpoch = 0x1234567;

  // The peer says that everything before `end` has arrived. It cannot be true of what was never sent.
  void say(Psn end) {
    if (distance(end, side_.qp().qp().tx.sent) <= 0 && distance(end, said_) > 0) said_ = end;
  }

  void send(wire::Opcode opcode, Psn psn, std::span<const std::byte> payload, uint8_t tag = 0, bool ack_request = false,
            wire::Aeth aeth = {}) {
    wire::Packet packet;
    packet.bth.opcode = opcode;
    packet.bth.dest_qpn = side_.qp().qpn();
    packet.bth.psn = psn;
    // Most frames without a seal are dropped.
    if (tag != wire::Seal::kCopyMask) {
      const wire::Seal seal = wire::Seal::of(kEpoch, side_.epoch());
      packet.bth.reserved6 = seal.upper;
      packet.bth.reserved7 = seal.lower;
    }
    packet.bth.reserved7 |= tag & wire::Seal::kCopyMask;
    packet.bth.ack_request = ack_request;
    packet.aeth = aeth;
    TestRegion& open = side_.open();
    packet.reth = {open.va() + 2048, open.key(), opcode == wire::Opcode::rc_read_request ? in_.below(4096) : 256u};
    if (opcode == wire::Opcode::rc_write_first) packet.reth.length = 768;
    packet.atomic = {open.va(), open.key(), 1, 0};
    Frame frame(wire::kMaxHeaderBytes + payload.size() + 8);
    frame.resize(test::encode(frame, packet, make_route(peer_, side_.endpoint().options()), payload));
    side_.inject(frame, now_);
  }

  void hello(uint32_t epoch, uint32_t peer_epoch, bool answer) {
    std::byte payload[wire::Hello::kBytes];
    const auto parking = static_cast<uint16_t>(1 + in_.take<uint16_t>() % 1023);
    wire::Hello{.epoch = epoch, .peer_epoch = peer_epoch, .parking = parking, .answer = answer}.store(payload);
    if (in_.take<uint8_t>() == 0xff) payload[in_.below(sizeof payload)] = in_.take<std::byte>();
    send(wire::Opcode::hello, Psn(0), payload);
  }

  void any_hello() {
    const auto how = in_.take<uint8_t>();
    const uint32_t epoch = (how & 3) == 0 ? in_.take<uint32_t>() : kEpoch + (how >> 6);
    const uint32_t ours = (how & 0x0c) == 0 ? in_.take<uint32_t>() : (how & 0x10) != 0 ? 0 : side_.epoch();
    hello(epoch, ours, (how & 0x20) != 0);
  }

  wire::Aeth any_aeth() {
    static constexpr uint8_t kSyndromes[] = {0x1f, 0x1f, 0x1f, 0x05, 0x00, 0x21, 0x60, 0x62};
    const auto how = in_.take<uint8_t>();
    return {how < 250 ? kSyndromes[how % 8] : in_.take<uint8_t>(), in_.take<uint8_t>()};
  }

  // Around what has been sent.
  Psn near_sent() {
    const auto& tx = side_.qp().qp().tx;
    const auto how = in_.take<uint8_t>();
    if (how == 0xff) return Psn(in_.take<uint32_t>());
    return tx.una + static_cast<uint32_t>(how % 40) - 4;
  }

  void sack() {
    wire::Sack sack;
    sack.epoch = in_.take<uint8_t>() == 0 ? in_.take<uint32_t>() : side_.epoch();
    sack.base = near_sent();
    sack.echo = near_sent();
    const auto how = in_.take<uint8_t>();
    sack.echo_tag = how & 3;
    sack.duplicate = (how & 4) != 0;
    sack.hold = (how & 8) != 0 ? in_.take<uint32_t>() : in_.take<uint8_t>();
    sack.words = (how & 16) != 0 ? in_.take<uint8_t>() % 17u : (how >> 5) % 2u;
    for (uint32_t i = 0; i < sack.words; ++i)
      sack.bitmap[i] = (how & 0x40) != 0 ? in_.take<uint64_t>() : in_.take<uint16_t>();
    std::byte payload[wire::Sack::kMaxBytes];
    sack.store(payload);
    const wire::Aeth aeth = any_aeth();
    const bool ack = aeth.kind() == wire::AethKind::ack;
    if (sack.epoch == side_.epoch()) say(sack.base);
    send(wire::Opcode::sack, ack ? sack.base - 1 : sack.base, {payload, sack.bytes()}, 0, false, aeth);
  }

  void request() {
    static constexpr wire::Opcode kOpcodes[] = {wire::Opcode::rc_write_only,  wire::Opcode::rc_send_only,
                                                wire::Opcode::rc_write_first, wire::Opcode::rc_write_middle,
                                                wire::Opcode::rc_write_last,  wire::Opcode::rc_read_request,
                                                wire::Opcode::rc_fetch_add,   wire::Opcode::rc_write_only};
    const auto how = in_.take<uint8_t>();
    const wire::Opcode opcode = kOpcodes[how % 8];
    const Psn expected = side_.qp().qp().rx.expected;
    const auto ahead = in_.take<uint8_t>();
    const Psn psn = ahead == 0xff ? Psn(in_.take<uint32_t>()) : expected + (ahead % 48u) - 3;
    const std::vector<std::byte> payload(wire::info(opcode).flags.has(wire::Op::payload) ? 256 : 0, std::byte{0x5a});
    send(opcode, psn, payload, how >> 5, (how & 8) != 0);
  }

  void answer() {
    static constexpr wire::Opcode kOpcodes[] = {wire::Opcode::rc_ack,
                                                wire::Opcode::rc_read_response_first,
                                                wire::Opcode::rc_read_response_middle,
                                                wire::Opcode::rc_read_response_last,
                                                wire::Opcode::rc_read_response_only,
                                                wire::Opcode::rc_atomic_ack};
    const wire::Opcode opcode = kOpcodes[in_.take<uint8_t>() % std::size(kOpcodes)];
    const bool data = wire::info(opcode).flags.has(wire::Op::payload);
    const auto length = in_.take<uint8_t>();
    const std::vector<std::byte> payload(!data ? 0 : length < 220 ? 256 : length, std::byte{0xa5});
    const Psn psn = near_sent();
    const wire::Aeth aeth = opcode == wire::Opcode::rc_ack ? any_aeth() : wire::Aeth{0x1f, 0};
    say(aeth.kind() == wire::AethKind::ack ? psn + 1 : psn);
    send(opcode, psn, payload, 0, false, aeth);
  }

  void change_state() {
    const auto how = in_.take<uint8_t>();
    TestQp& qp = side_.qp();
    if (how < 8) qp.set_state(QpState::error);
    if (how >= 8 && how < 64 && qp.state() == QpState::rts) qp.set_state(QpState::sqd);
    if (how >= 64 && qp.state() == QpState::sqd) qp.set_state(QpState::rts);
  }

  void step() {
    switch (in_.take<uint8_t>() % 16) {
      case 0:
      case 1:
      case 2: sack(); break;
      case 3:
      case 4:
      case 5:
      case 6: request(); break;
      case 7:
      case 8: answer(); break;
      case 9: any_hello(); break;
      case 10:
      case 11: side_.post(in_); break;
      case 12: side_.receive(in_); break;
      case 13: now_ += time_step(in_); break;
      case 14: side_.endpoint().sink().set_room(in_.take<uint8_t>() % 8 == 0 ? 1 : SIZE_MAX); break;
      default: change_state(); break;
    }
  }

  Input in_;
  Nanos now_{1'000'000};
  Side side_;
  EndpointOptions peer_;
  Psn said_{};
};

/// Two engines, and the network is the input.
class Pair {
 public:
  Pair(Input in, uint8_t how) : in_(in), sides_{Side(1, how), Side(2, how)} {
    sides_[0].connect(options_of(2, 0), 3);
    sides_[1].connect(options_of(1, 0), 2);
    // Both say HELLO before the network turns bad.
    for (int i = 0; i < 4; ++i) {
      carry();
      deliver(SIZE_MAX);
    }
  }

  void run() {
    for (int steps = 0; !in_.empty() && steps < 600; ++steps) step();
    for (Side& side : sides_) side.finish(now_);
  }

 private:
  struct OnTheWay {
    std::size_t to;
    Frame frame;
  };

  void carry() {
    for (std::size_t i = 0; i < 2; ++i) {
      for (Frame& frame : sides_[i].poll(now_)) wire_.push_back({1 - i, std::move(frame)});
    }
    while (wire_.size() > 4096) wire_.pop_front();
  }

  void deliver(std::size_t frames) {
    for (; frames > 0 && !wire_.empty(); --frames) {
      const OnTheWay one = std::move(wire_.front());
      wire_.pop_front();
      sides_[one.to].inject(one.frame, now_);
    }
  }

  // Only from the BTH on: a frame with other headers before it would reach nobody.
  void change(Frame& frame) {
    constexpr std::size_t kBth = 42;
    for (uint32_t n = 1 + in_.take<uint8_t>() % 3u; n > 0; --n) {
      frame[kBth + in_.below(static_cast<uint32_t>(std::min<std::size_t>(frame.size() - kBth, 200)))] =
          in_.take<std::byte>();
    }
    test::reseal(frame);
  }

  void step() {
    const auto op = in_.take<uint8_t>();
    Side& side = sides_[op >> 7];
    const std::size_t at = wire_.empty() ? 0 : in_.take<uint8_t>() % wire_.size();
    const auto it = wire_.begin() + static_cast<std::ptrdiff_t>(at);
    switch (op % 16) {
      case 0:
      case 1: side.post(in_); break;
      case 2: side.receive(in_); break;
      case 3: now_ += time_step(in_); break;
      case 4:
        if (!wire_.empty()) wire_.erase(it);
        break;
      case 5:
        if (!wire_.empty()) wire_.push_back(*it);
        break;
      case 6:
        if (!wire_.empty()) std::rotate(wire_.begin(), it, wire_.end());
        break;
      case 7:
      case 8:
        if (!wire_.empty()) change(it->frame);
        break;
      default: deliver(op % 16 - 7u); break;
    }
    carry();
  }

  Input in_;
  Nanos now_{1'000'000};
  Side sides_[2];
  std::deque<OnTheWay> wire_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  Input in({data, size});
  const auto how = in.take<uint8_t>();
  if ((how & 1) != 0) {
    Peer(in, how).run();
  } else {
    Pair(in, how).run();
  }
  return 0;
}
