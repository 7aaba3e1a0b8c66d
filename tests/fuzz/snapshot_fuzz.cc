// A queue pair's snapshot from somebody who wishes ill. The first bytes of the input choose the kind of queue pair and
// bring it into the middle of its traffic with an honest peer. Then its snapshot is written and changed, or replaced by
// the input's own bytes, always with a checksum that fits. The engine reads it and goes on for a while with frames,
// time and work requests. For any input, nothing outside a region is written, no byte of another protection domain
// leaves, every frame has this port's own addresses, and a snapshot that is refused leaves nothing behind.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>

#include "tests/fuzz/input.h"
#include "tests/support/encode.h"
#include "tests/support/test_endpoint.h"
#include "transport/qp/snapshot.h"

namespace {

using namespace uroce;
using namespace uroce::test;

using Bytes = std::vector<std::byte>;

constexpr std::size_t kRegion = 16384;
constexpr memory::PdId kForeignPd = 2;
constexpr std::byte kSecret{0xe7};
constexpr std::size_t kSecretRun = 24;  // as many of them in a row do not come by chance

/// The input's first bytes.
struct How {
  QpType type = QpType::rc;
  Retransmission retransmission = Retransmission::automatic;
  CongestionAlgorithm congestion = CongestionAlgorithm::none;
  bool srq = false;
  bool own_bytes = false;  ///< the snapshot's fields are the input's

  static How take(Input& in) {
    static constexpr QpType kTypes[] = {QpType::rc, QpType::rc, QpType::rc, QpType::uc,
                                        QpType::ud, QpType::rc, QpType::rc, QpType::xrc_initiator};
    static constexpr CongestionAlgorithm kCongestion[] = {CongestionAlgorithm::none, CongestionAlgorithm::none,
                                                          CongestionAlgorithm::dcqcn, CongestionAlgorithm::swift};
    const auto bits = in.take<uint8_t>();
    How how{.type = kTypes[bits & 7], .own_bytes = (bits & 0x80) != 0};
    how.congestion = kCongestion[bits >> 3 & 3];
    how.srq = (bits & 0x20) != 0 && how.type != QpType::xrc_initiator;
    if ((bits & 0x40) != 0) how.retransmission = Retransmission::go_back_n;
    return how;
  }
};

EndpointOptions options_of(uint8_t number, const How& how) {
  EndpointOptions options;
  options.gid = Gid::from_ipv4(0x0a000000u + number);
  options.mac.bytes[5] = number;
  options.seed = number;
  options.engine.max_qps = 64;
  options.engine.check_icrc = false;
  options.engine.seed = number;
  options.engine.window_packets = 32;
  options.engine.long_windows = 2;
  options.engine.settings.parking_frames = 16;
  options.engine.settings.retransmission = how.retransmission;
  options.engine.settings.congestion.algorithm = how.congestion;
  return options;
}

/// One host: the queue pair, its own regions, and a region of another protection domain.
class Side {
 public:
  Side(uint8_t number, const How& how) : endpoint_(options_of(number, how)), how_(how) {
    std::ranges::fill(foreign_.bytes(), kSecret);
    TestQp::Options options;
    options.qpn = number + 1u;
    options.type = how.type;
    options.cap = {8, 8, 2, 2, 64};
    options.signal_all = (number & 1) != 0;
    options.send_cq = options.recv_cq = &endpoint_.make_cq(256);
    if (how.srq) options.srq = &endpoint_.make_srq(16, 2);
    qp_ = &endpoint_.make_qp(options);
  }

  void connect(const EndpointOptions& peer, uint32_t peer_qpn) {
    ConnectOptions options;
    options.dest_qpn = peer_qpn;
    options.sq_psn = options.rq_psn = 0xfffff0;
    options.mtu = Mtu::mtu256;
    options.timeout = 8;
    options.max_rd_atomic = options.max_dest_rd_atomic = 3;
    options.min_rnr_timer = 1;
    const wire::Route route = make_route(endpoint_.options(), peer);
    qp_->connect(options, route);
    if (how_.type == QpType::ud) ah_ = endpoint_.make_ah(route);
    peer_qpn_ = peer_qpn;
  }

  /// The frames that the engine sends now. `forged`: a snapshot that was tampered with is in it.
  std::vector<Frame> poll(Nanos now, bool forged = false) {
    std::vector<Frame> out;
    for (int turn = 0; turn < 12; ++turn) {
      const bool busy = endpoint_.engine().poll(endpoint_.sink(), now);
      for (SentFrame& sent : endpoint_.sink().take()) {
        if (forged) check(sent.bytes);
        out.push_back(std::move(sent.bytes));
      }
      if (!busy) break;
    }
    return out;
  }

  void post(Input& in) {
    static constexpr WrOpcode kOpcodes[] = {WrOpcode::rdma_write,   WrOpcode::send,
                                            WrOpcode::rdma_read,    WrOpcode::fetch_add,
                                            WrOpcode::atomic_write, WrOpcode::rdma_write_with_imm,
                                            WrOpcode::flush,        WrOpcode::local_invalidate};
    const auto bits = in.take<uint8_t>();
    SendRequest request{.wr_id = 1, .opcode = kOpcodes[bits & 7]};
    if (how_.type == QpType::ud) request.opcode = WrOpcode::send;
    const bool atomic = request.opcode == WrOpcode::fetch_add;
    const uint32_t most = how_.type == QpType::ud ? 200 : 2000;
    const uint32_t length = atomic ? 8 : in.take<uint8_t>() * 8u % most;
    const Sge sges[] = {open_.sge(0, length / 2), open_.sge(4096, length - length / 2)};
    request.sges = atomic ? std::span(sges).subspan(1) : sges;
    if (atomic) request.sges = std::span(&sges_of_atomic_, 1);
    if (request.opcode == WrOpcode::atomic_write || request.opcode == WrOpcode::flush) request.sges = {};
    if (request.opcode == WrOpcode::local_invalidate) request.sges = {};
    if (!atomic && !request.sges.empty() && length <= 64 && (bits & 8) != 0) {
      request.flags |= SendFlag::inline_data;
      request.inline_data = open_.bytes().first(length);
      request.sges = {};
    }
    if ((bits & 16) != 0) request.flags |= SendFlag::fence;
    request.remote_addr = open_.va() + 2048;
    request.rkey = open_.key();
    request.flush = {.length = 64, .placement = Placement::global, .scope = FlushScope::range};
    request.ah = ah_;
    request.remote_qpn = peer_qpn_;
    request.remote_qkey = ConnectOptions{}.qkey;
    qp_->post_send(request);
  }

  void receive() {
    if (how_.type == QpType::xrc_initiator) return;
    const Sge sges[] = {open_.sge(8192, 100), open_.sge(9000, 3000)};
    qp_->post_recv({.wr_id = 2, .sges = sges});
  }

  void check_memory() {
    require(endpoint_.guards_intact(), "memory outside a region was written");
    require(std::ranges::count(foreign_.bytes(), kSecret) == static_cast<std::ptrdiff_t>(kRegion),
            "memory of another protection domain was written");
  }

  TestEndpoint& endpoint() { return endpoint_; }
  TestQp& qp() { return *qp_; }
  TestRegion& open() { return open_; }
  TestRegion& foreign() { return foreign_; }

 private:
  void check(const Frame& frame) {
    const auto packet = wire::parse(frame);
    require(packet.has_value(), "a frame was sent that does not parse");
    const EndpointOptions& own = endpoint_.options();
    require(std::memcmp(frame.data() + 6, own.mac.bytes.data(), 6) == 0, "a frame has another port's Ethernet source");
    require(packet->source() == own.gid, "a frame has a source address that is not this port's");
    const Bytes run(kSecretRun, kSecret);
    require(std::ranges::search(frame, run).empty(), "bytes of another protection domain were sent");
  }

  TestEndpoint endpoint_;
  How how_;
  TestRegion& open_ = endpoint_.make_region(kRegion, kAllAccess);
  TestRegion& foreign_ = endpoint_.make_region(kRegion, kAllAccess, kForeignPd);
  Sge sges_of_atomic_ = open_.sge(512, 8);
  TestQp* qp_ = nullptr;
  uint32_t ah_ = 0;
  uint32_t peer_qpn_ = 0;
};

class Hosts {
 public:
  Hosts(Input in, const How& how) : in_(in), how_(how), sides_{Side(1, how), Side(2, peer_of(how))} {}

  void run() {
    if (!how_.own_bytes) {
      connect();
      for (int steps = in_.take<uint8_t>() % 32; steps > 0; --steps) step(false);
    }
    const Bytes honest = qp().leave_engine(now_);
    Bytes program(how_.own_bytes ? 32 : 0);
    in_.fill(program);
    Bytes forged = how_.own_bytes ? own_bytes(honest) : changed(honest);
    const auto entered = qp().enter_engine(forged, now_);
    if (!entered) {
      require(sides_[0].endpoint().engine().parked_frames() == 0, "a refused snapshot keeps frames");
      // As if nothing had been read.
      require(qp().enter_engine(honest, now_).has_value(), "the honest snapshot is refused after a forged one");
    }
    const std::span<const uint8_t> written(reinterpret_cast<const uint8_t*>(program.data()), program.size());
    if (how_.own_bytes) in_ = Input(written);
    for (int steps = 0; !in_.empty() && steps < 60; ++steps) step(true);
    finish();
  }

 private:
  struct OnTheWay {
    std::size_t to;
    Frame frame;
  };

  // An initiator's peer is no initiator. Nobody answers it but the input.
  static How peer_of(How how) {
    if (how.type == QpType::xrc_initiator) how.type = QpType::rc;
    return how;
  }

  TestQp& qp() { return sides_[0].qp(); }

  void connect() {
    sides_[0].connect(sides_[1].endpoint().options(), 3);
    sides_[1].connect(sides_[0].endpoint().options(), 2);
    for (int i = 0; i < 4; ++i) {
      carry(false);
      deliver(SIZE_MAX);
    }
  }

  void carry(bool forged) {
    for (std::size_t i = 0; i < 2; ++i) {
      for (Frame& frame : sides_[i].poll(now_, forged && i == 0)) wire_.push_back({1 - i, std::move(frame)});
    }
    while (wire_.size() > 512) wire_.pop_front();
  }

  void deliver(std::size_t frames) {
    for (; frames > 0 && !wire_.empty(); --frames) {
      const OnTheWay one = std::move(wire_.front());
      wire_.pop_front();
      sides_[one.to].endpoint().inject(one.frame, now_);
    }
  }

  // A frame of the peer, near what the queue pair waits for.
  void send_crafted() {
    static constexpr wire::Opcode kOpcodes[] = {wire::Opcode::rc_write_only,
                                                wire::Opcode::rc_send_only,
                                                wire::Opcode::rc_send_middle,
                                                wire::Opcode::rc_write_last,
                                                wire::Opcode::rc_read_request,
                                                wire::Opcode::rc_fetch_add,
                                                wire::Opcode::rc_ack,
                                                wire::Opcode::rc_read_response_only,
                                                wire::Opcode::rc_read_response_first,
                                                wire::Opcode::rc_atomic_ack,
                                                wire::Opcode::rc_read_response_last,
                                                wire::Opcode::sack,
                                                wire::Opcode::cnp,
                                                wire::Opcode::rc_read_response_middle,
                                                wire::Opcode::rc_send_last,
                                                wire::Opcode::rc_write_middle};
    const transport::Qp& qp = this->qp().qp();
    const auto how = in_.take<uint8_t>();
    const wire::Opcode opcode = kOpcodes[how & 15];
    const bool request = wire::info(opcode).flags.has(wire::Op::request);
    const auto ahead = in_.take<uint8_t>();
    const Psn psn = (request ? qp.rx.expected : qp.tx.una) + (ahead % 24u) - (ahead >= 192 ? 4u : 0u);
    wire::Packet packet;
    packet.bth.opcode = opcode;
    packet.bth.dest_qpn = qp.qpn;
    packet.bth.psn = psn;
    packet.bth.reserved6 = qp.seal.upper;
    packet.bth.reserved7 = qp.seal.lower;
    packet.bth.ack_request = (how & 16) != 0;
    static constexpr uint8_t kSyndromes[] = {0x1f, 0x05, 0x60, 0x21, 0x62, 0x00, 0x1e, 0x63};
    packet.aeth = {
        opcode == wire::Opcode::rc_ack || opcode == wire::Opcode::sack ? kSyndromes[how >> 5] : uint8_t{0x1f}, ahead};
    TestRegion& open = sides_[0].open();
    packet.reth = {open.va() + 2048, open.key(), opcode == wire::Opcode::rc_read_request ? ahead * 16u : 256u};
    packet.atomic = {open.va(), open.key(), 1, 0};
    Bytes payload;
    if (wire::info(opcode).flags.has(wire::Op::payload)) payload.resize(256, std::byte{0x5a});
    if (opcode == wire::Opcode::sack) payload = sack(qp, psn);
    if (opcode == wire::Opcode::cnp) payload.clear();
    Frame frame(wire::kMaxHeaderBytes + payload.size() + 32);
    const EndpointOptions& own = sides_[0].endpoint().options();
    frame.resize(test::encode(frame, packet, make_route(sides_[1].endpoint().options(), own), payload));
    sides_[0].endpoint().inject(frame, now_);
  }

  Bytes sack(const transport::Qp& qp, Psn base) {
    wire::Sack sack;
    if (qp.tx.recovery != nullptr) sack.epoch = qp.tx.recovery->discovery.epoch();
    sack.base = base;
    sack.echo = base - 1;
    sack.words = in_.take<uint8_t>() % 3u;
    for (uint32_t i = 0; i < sack.words; ++i) sack.bitmap[i] = in_.take<uint8_t>() * 0x0101010101010101u;
    Bytes payload(wire::Sack::kMaxBytes);
    sack.store(payload.data());
    payload.resize(sack.bytes());
    return payload;
  }

  void change_state() {
    switch (in_.take<uint8_t>() % 8) {
      case 0: qp().set_state(QpState::error); break;
      case 1: qp().set_state(QpState::reset); break;
      case 2:
        if (qp().state() == QpState::rts) qp().set_state(QpState::sqd);
        break;
      default:
        if (qp().state() == QpState::sqd || qp().state() == QpState::sqe) qp().set_state(QpState::rts);
    }
  }

  // The queue pair is written and read once more. It may be refused then.
  void move_again() {
    const Bytes snapshot = qp().leave_engine(now_);
    if (qp().enter_engine(snapshot, now_)) return;
    finished_ = true;
    in_ = Input({});
  }

  void step(bool forged) {
    if (finished_) return;
    const auto op = in_.take<uint8_t>();
    switch (op % 16) {
      case 0:
      case 1:
      case 2: sides_[op >> 7].post(in_); break;
      case 3: sides_[op >> 7].receive(); break;
      case 4: now_ += Nanos(int64_t{1} << (op >> 4) * (forged ? 3 : 2)); break;
      case 5:
        if (!wire_.empty()) wire_.pop_front();
        break;
      case 6:
        if (!wire_.empty()) std::rotate(wire_.begin(), wire_.begin() + (op >> 4) % wire_.size(), wire_.end());
        break;
      case 7: sides_[0].endpoint().sink().set_room((op & 16) != 0 ? SIZE_MAX : op >> 5); break;
      case 8:
      case 9:
      case 10:
        if (forged) send_crafted();
        break;
      case 11:
        if (forged && (op & 0xc0) == 0) change_state();
        break;
      case 12:
        if (forged && (op & 0xe0) == 0) move_again();
        break;
      default: deliver(1 + (op >> 4)); break;
    }
    if (!finished_) carry(forged);
  }

  // The input's bytes behind a right beginning.
  Bytes own_bytes(const Bytes& honest) {
    Bytes snapshot(honest.begin(), honest.begin() + transport::kSnapshotHeaderBytes);
    while (!in_.empty() && snapshot.size() < 16384) snapshot.push_back(in_.take<std::byte>());
    transport::seal_snapshot(snapshot);
    return snapshot;
  }

  // A value that somebody who writes a snapshot would try.
  uint64_t chosen_value(uint8_t which) {
    const transport::Qp& peer = sides_[1].qp().qp();
    const TestRegion& foreign = sides_[0].foreign();
    const uint64_t values[] = {
        foreign.key(),     foreign.va(), kForeignPd, 0xffffffff, 0x7fffffff, 0x80000000, 0x10000, peer.qpn,
        uint64_t{1} << 60, ~uint64_t{0}, 0xffffff,   0x800000,   1024,       1,          0,       255};
    return values[which % std::size(values)];
  }

  Bytes changed(const Bytes& honest) {
    Bytes snapshot = honest;
    for (int changes = 1 + in_.take<uint8_t>() % 8; changes > 0; --changes) {
      const std::size_t fields = snapshot.size() - transport::kSnapshotHeaderBytes;
      const std::size_t at = transport::kSnapshotHeaderBytes + in_.take<uint16_t>() % fields;
      const auto how = in_.take<uint8_t>();
      const std::size_t n = std::min<std::size_t>(std::size_t{1} << (how & 3), snapshot.size() - at);
      uint64_t value = 0;
      if ((how & 4) != 0) {
        value = chosen_value(how >> 4);
      } else {
        std::memcpy(&value, snapshot.data() + at, n);
        value += (how & 8) != 0 ? static_cast<uint64_t>(in_.take<int8_t>()) : uint64_t{1} << (how >> 4) * 4;
      }
      std::memcpy(snapshot.data() + at, &value, n);
    }
    transport::seal_snapshot(snapshot);
    return snapshot;
  }

  void finish() {
    TestEndpoint& endpoint = sides_[0].endpoint();
    endpoint.sink().set_room(SIZE_MAX);
    if (!finished_) {
      now_ += Nanos(int64_t{1} << 40);
      for (int i = 0; i < 4; ++i) sides_[0].poll(now_, true);
      if (qp().state() != QpState::error) qp().set_state(QpState::error);
      for (int i = 0; i < 4; ++i) sides_[0].poll(now_, true);
    }
    require(endpoint.engine().parked_frames() == 0, "frames stay parked behind a queue pair in error");
    for (Side& side : sides_) side.check_memory();
  }

  Input in_;
  How how_;
  Nanos now_{1'000'000};
  Side sides_[2];
  std::deque<OnTheWay> wire_;
  bool finished_ = false;  // the queue pair has left for good
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  Input in({data, size});
  const How how = How::take(in);
  Hosts(in, how).run();
  return 0;
}
