#include "tests/support/test_endpoint.h"

#include <bit>
#include <cstring>

#include "base/wr_opcodes.h"
#include "transport/qp/snapshot.h"

namespace uroce::test {

TestRegion::TestRegion(memory::RegionTable& table, memory::PdId pd, uint64_t va, std::size_t size, AccessFlags access,
                       uint64_t stream)
    : table_(table), buffer_(size), va_(va), stream_(stream) {
  fill_pattern(buffer_.bytes(), stream);
  auto key = table.add({.pd = pd, .address = va, .length = size, .host = buffer_.bytes().data(), .access = access});
  require(key.has_value(), key.has_value() ? "" : key.error().text);
  key_ = *key;
}

void TestRegion::deregister() {
  table_.remove(key_);
  table_.retire(key_);
}

TestEndpoint::TestEndpoint(const EndpointOptions& options)
    : options_(options), regions_(options.max_regions, options.seed) {
  if (options_.engine.gids.empty()) options_.engine.gids = {options_.gid};
  make_engine(0);
}

void TestEndpoint::make_engine(uint32_t doorbell_position) {
  options_.engine.mac = options_.mac;
  if (options_.keeps_recording || (Recording::wanted() && options_.recorded)) {
    options_.engine.tape = recordings_.emplace_back(std::make_unique<Recording>())->tape();
  }
  engine_ = std::make_unique<transport::Engine>(options_.engine, regions_, events_, &handles_);
  const queues::DoorbellReader doorbells(doorbell_memory_.get(), doorbell_slots(), doorbell_position);
  require(engine_->attach_doorbells(doorbells, kDoorbellRing), "the engine did not take the doorbells");
}

queues::DoorbellPoster& TestEndpoint::doorbells(uint32_t client) {
  return client == kDoorbellRing ? poster_ : clients_.at(client - kDoorbellRing - 1).poster;
}

uint32_t TestEndpoint::add_client(const transport::Owner& owner) {
  const Client& added = clients_.emplace_back(doorbell_slots());
  const auto ring = static_cast<uint32_t>(kDoorbellRing + clients_.size());
  const queues::DoorbellReader doorbells(added.memory.get(), doorbell_slots());
  require(engine_->attach_doorbells(doorbells, ring, owner), "the engine did not take the doorbells");
  return ring;
}

void TestEndpoint::move_to_new_engine(Nanos now, Nanos clock_ahead) {
  std::vector<std::vector<std::byte>> snapshots;
  for (auto& qp : qps_) snapshots.push_back(qp->leave_engine(now + clock_ahead_));
  make_engine(engine_->doorbell_positions(kDoorbellRing).front());
  clock_ahead_ = clock_ahead;
  for (std::size_t i = 0; i < qps_.size(); ++i) {
    const auto moved = qps_[i]->enter_engine(snapshots[i], now + clock_ahead_);
    require(moved.has_value(), moved.has_value() ? "" : moved.error().text);
  }
}

bool TestEndpoint::outlive_engine(Nanos now) {
  const bool unknown = engine_->outlive_thread();
  std::vector<std::vector<std::byte>> snapshots;
  for (auto& qp : qps_) snapshots.push_back(qp->outlive_engine(now + clock_ahead_));
  for (auto& cq : cqs_) cq->go_on(events_);
  make_engine(engine_->doorbell_positions(kDoorbellRing).front());
  for (std::size_t i = 0; i < qps_.size(); ++i) {
    if (snapshots[i].empty()) {
      qps_[i]->enter_engine_unknown(now + clock_ahead_);
      continue;
    }
    const auto moved = qps_[i]->enter_engine(snapshots[i], now + clock_ahead_);
    require(moved.has_value(), moved.has_value() ? "" : moved.error().text);
  }
  return unknown;
}

TestCq& TestEndpoint::make_cq(uint32_t entries) {
  return *cqs_.emplace_back(std::make_unique<TestCq>(next_cq_id_++, entries));
}

TestSrq& TestEndpoint::make_srq(uint32_t entries, uint32_t max_sge, memory::PdId pd) {
  return *srqs_.emplace_back(std::make_unique<TestSrq>(next_cq_id_++, entries, max_sge, pd));
}

TestSrq& TestEndpoint::make_xrc_srq(uint32_t domain, TestCq& cq, uint32_t entries, uint32_t max_sge, memory::PdId pd) {
  TestSrq& srq = *srqs_.emplace_back(std::make_unique<TestSrq>(next_cq_id_++, entries, max_sge, pd, domain, &cq));
  engine_->attach_srq(srq.srq());
  return srq;
}

TestQp& TestEndpoint::make_qp(TestQp::Options options) {
  if (options.send_cq == nullptr) options.send_cq = &make_cq();
  if (options.recv_cq == nullptr) options.recv_cq = &make_cq();
  return *qps_.emplace_back(std::make_unique<TestQp>(*this, options));
}

uint32_t TestEndpoint::make_ah(const wire::Route& route, bool loopback, memory::PdId pd) {
  wire::Route to = route;
  if (to.dgid.is_multicast()) to.dst_mac = wire::multicast_mac(to.dgid);
  const auto id = handles_.add({.pd = pd,
                                .route = wire::make_template(to),
                                .dst_mac = transport::LiveMac(to.dst_mac),
                                .dgid = to.dgid,
                                .flow_label = to.flow_label,
                                .loopback = loopback,
                                .multicast = to.dgid.is_multicast()});
  require(id.has_value(), "no address handle is left");
  return *id;
}

TestRegion& TestEndpoint::make_region(std::size_t size, AccessFlags access, memory::PdId pd) {
  const uint64_t number = test_regions_.size() + 1;
  return *test_regions_.emplace_back(
      std::make_unique<TestRegion>(regions_, pd, number << 32, size, access, options_.seed << 8 | number));
}

wire::Route make_route(const EndpointOptions& from, const EndpointOptions& to) {
  wire::Route route;
  route.src_mac = from.mac;
  route.dst_mac = to.mac;
  route.sgid = from.gid;
  route.dgid = to.gid;
  return route;
}

wire::Route TestEndpoint::route_to(const TestEndpoint& peer) const { return make_route(options_, peer.options_); }

void TestEndpoint::inject(std::span<const std::byte> frame, Nanos now) {
  const transport::RxFrame rx{.bytes = frame};
  inject({&rx, 1}, now);
}

void TestEndpoint::inject(std::span<const transport::RxFrame> frames, Nanos now) {
  engine_->on_frames(frames, now + clock_ahead_);
}

void TestEndpoint::offer_to_rules(std::span<const std::byte> frame, Nanos now, transport::FrameTakers takers) {
  if (engine_->flows().empty()) return;
  const transport::RxFrame rx{.bytes = frame};
  engine_->on_raw_frames({&rx, 1}, now + clock_ahead_, takers);
}

Nanos TestEndpoint::next_deadline() const {
  const Nanos next = engine_->next_deadline();
  return next == kNever ? kNever : next - clock_ahead_;
}

void TestEndpoint::run(Nanos now) {
  for (int turn = 0; turn < 100'000; ++turn) {
    if (!engine_->poll(sink_, now + clock_ahead_)) return;
  }
  require(false, "the engine was polled 100,000 times at one moment and still says that it does work");
}

bool TestEndpoint::guards_intact() const {
  for (const auto& region : test_regions_) {
    if (!region->guards_intact()) return false;
  }
  return true;
}

std::size_t TestEndpoint::held_of_xrc_queues() const {
  std::size_t held = 0;
  for (const auto& srq : srqs_) held += srq->held();
  return held;
}

TestQp::TestQp(TestEndpoint& endpoint, const Options& options)
    : endpoint_(endpoint),
      options_(options),
      sq_(std::bit_ceil(options.cap.max_send_wr),
          queues::send_stride(options.cap.max_send_sge, options.cap.max_inline_data)),
      flag_memory_(make_aligned(sizeof(queues::DoorbellFlag))),
      flag_(reinterpret_cast<queues::DoorbellFlag*>(flag_memory_.get())),
      send_producer_(sq_.place) {
  if (options.srq == nullptr && !is_xrc(options.type)) {
    rq_ = OwnedRing(std::bit_ceil(options.cap.max_recv_wr), queues::recv_stride(options.cap.max_recv_sge));
    recv_producer_ = queues::RingProducer(rq_.place);
  }
  transport::QpSpec& spec = spec_;
  spec.qpn = options.qpn;
  spec.type = options.type;
  spec.pd = options.pd;
  spec.cap = options.cap;
  spec.signal_all = options.signal_all;
  spec.window_packets = endpoint.options().engine.window_packets;
  spec.congestion = options.congestion;
  spec.sq = sq_.place;
  spec.rq = rq_.place;
  if (options.srq != nullptr && options.type != QpType::xrc_target) spec.held_recv = held_;
  spec.sq_doorbell = flag_;
  spec.doorbell_ring = options.client;
  spec.send_cq = &options.send_cq->writer();
  spec.recv_cq = &options.recv_cq->writer();
  const bool target = options.type == QpType::xrc_target;
  spec.srq = options.srq == nullptr || target ? nullptr : &options.srq->srq();
  spec.xrc_domain = options.xrc_domain;
  if (target) spec.send_cq = spec.recv_cq = nullptr;
  auto made = transport::make_qp(spec);
  require(made.has_value(), "make_qp failed");
  qp_ = std::move(*made);
  require(endpoint.engine().attach(*qp_), "the engine did not take the QP");
}

TestQp::~TestQp() {
  if (qp_ != nullptr) endpoint_.engine().detach(*qp_);
}

std::vector<std::byte> TestQp::leave_engine(Nanos now) {
  std::vector<std::byte> snapshot = endpoint_.engine().export_qp(*qp_, now);
  qp_.reset();
  return snapshot;
}

Result<void> TestQp::enter_engine(std::span<const std::byte> snapshot, Nanos now) {
  auto made = transport::make_qp(spec_);
  require(made.has_value(), "make_qp failed");
  qp_ = std::move(*made);
  return endpoint_.engine().import_qp(*qp_, snapshot, now);
}

void TestQp::enter_engine_unknown(Nanos now) {
  qp_ = std::move(*transport::make_qp(spec_));
  require(endpoint_.engine().attach(*qp_), "the engine did not take the QP");
  endpoint_.engine().adopt_unknown(*qp_, now);
}

// The old engine's lists, which may be half changed, are not touched any more.
std::vector<std::byte> TestQp::outlive_engine(Nanos now) {
  std::vector<std::byte> snapshot = endpoint_.engine().snapshot(*qp_, now, transport::kSnapshotVersion);
  qp_.reset();
  return snapshot;
}

transport::QpTransportStatus TestQp::status() const { return endpoint_.engine().status(*qp_); }

QpAttr TestQp::query() const { return endpoint_.engine().query(*qp_); }

void TestQp::ring() { endpoint_.doorbells(options_.client).ring(*flag_, options_.qpn); }

bool TestQp::post_send(const SendRequest& request) {
  if (send_producer_.room() == 0) return false;
  queues::SendWqe wqe{};
  wqe.wr_id = request.wr_id;
  wqe.flags = request.flags.bits();
  wqe.opcode = static_cast<uint8_t>(request.opcode);
  wqe.num_sge = static_cast<uint8_t>(request.sges.size());
  wqe.inline_length = static_cast<uint16_t>(request.inline_data.size());
  wqe.imm_or_key = request.imm_or_key;
  wqe.rkey = request.rkey;
  wqe.remote_addr = request.remote_addr;
  wqe.remote_srqn = request.remote_srqn != 0 ? request.remote_srqn : options_.remote_srqn;
  if (options_.type == QpType::ud) {
    wqe.ud = {request.ah, request.remote_qpn, request.remote_qkey, 0};
  } else if (request.opcode == WrOpcode::flush) {
    const FlushTarget& flush = request.flush;
    wqe.placement_flush = {flush.length, flush.placement.bits(), static_cast<uint32_t>(flush.scope), 0};
  } else {
    wqe.atomic.compare_add = request.compare_add;
    wqe.atomic.swap = request.swap;
  }
  std::byte* slot = send_producer_.slot();
  std::memcpy(slot, &wqe, sizeof wqe);
  if (request.flags.has(SendFlag::inline_data)) {
    if (!request.inline_data.empty()) {
      std::memcpy(slot + sizeof wqe, request.inline_data.data(), request.inline_data.size());
    }
  } else if (!request.sges.empty()) {
    std::memcpy(slot + sizeof wqe, request.sges.data(), request.sges.size_bytes());
  }
  send_producer_.publish(1);
  ring();
  return true;
}

bool TestQp::post_recv(const RecvRequest& request) {
  if (options_.srq != nullptr) return options_.srq->post_recv(request);
  if (!put_recv(recv_producer_, request.wr_id, request.sges)) return false;
  if (rq_.place.header->wants_doorbell.load() != 0) ring();
  return true;
}

void TestQp::to_init(const ConnectOptions& options) {
  QpAttr attr;
  attr.state = QpState::init;
  attr.access = options.access;
  attr.port = 1;
  attr.qkey = options.qkey;
  QpAttrMask mask = QpAttrMask(QpAttrBit::state) | QpAttrBit::port;
  if (options_.type != QpType::raw_packet) {
    mask |=
        QpAttrMask(QpAttrBit::pkey_index) | (options_.type == QpType::ud ? QpAttrBit::qkey : QpAttrBit::access_flags);
  }
  endpoint_.engine().modify(*qp_, attr, mask, nullptr, false);
}

void TestQp::to_rtr(const ConnectOptions& options, const wire::Route& route, bool loopback) {
  QpAttr attr;
  attr.state = QpState::rtr;
  attr.path_mtu = options.mtu;
  attr.dest_qpn = options.dest_qpn;
  attr.rq_psn = options.rq_psn;
  attr.max_dest_rd_atomic = options.max_dest_rd_atomic;
  attr.min_rnr_timer = options.min_rnr_timer;
  attr.av.dgid = route.dgid;
  QpAttrMask mask =
      QpAttrMask(QpAttrBit::state) | QpAttrBit::av | QpAttrBit::path_mtu | QpAttrBit::dest_qpn | QpAttrBit::rq_psn;
  if (options_.type == QpType::rc || options_.type == QpType::xrc_target) {
    mask |= QpAttrBit::max_dest_rd_atomic | QpAttrBit::min_rnr_timer;
  }
  const bool datagrams = !has_peer(options_.type);
  if (datagrams) mask = QpAttrBit::state;
  endpoint_.engine().modify(*qp_, attr, mask, datagrams ? nullptr : &route, loopback);
}

void TestQp::to_rts(const ConnectOptions& options) {
  QpAttr attr;
  attr.state = QpState::rts;
  attr.sq_psn = options.sq_psn;
  attr.timeout = options.timeout;
  attr.retry_cnt = options.retry_cnt;
  attr.rnr_retry = options.rnr_retry;
  attr.max_rd_atomic = options.max_rd_atomic;
  QpAttrMask mask = QpAttrBit::state;
  if (options_.type != QpType::raw_packet) mask |= QpAttrBit::sq_psn;
  if (options_.type == QpType::xrc_target) mask |= QpAttrBit::timeout;
  if (options_.type == QpType::rc || options_.type == QpType::xrc_initiator) {
    mask |= QpAttrBit::timeout | QpAttrBit::retry_cnt | QpAttrBit::rnr_retry | QpAttrBit::max_rd_atomic;
  }
  endpoint_.engine().modify(*qp_, attr, mask, nullptr, false);
}

void TestQp::connect(const ConnectOptions& options, const wire::Route& route, bool loopback) {
  to_init(options);
  to_rtr(options, route, loopback);
  to_rts(options);
}

void TestQp::set_state(QpState state, bool drain_event) {
  QpAttr attr;
  attr.state = state;
  attr.en_sqd_async_notify = drain_event;
  QpAttrMask mask = QpAttrBit::state;
  if (state == QpState::sqd) mask |= QpAttrBit::en_sqd_async_notify;
  endpoint_.engine().modify(*qp_, attr, mask, nullptr, false);
}

}  // namespace uroce::test
