// One engine with everything around it that a test needs: regions, queues, a sink that captures frames, events.
//
// Single-threaded: what applications and the control thread do in production is called straight on the engine.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <uroce/verbs/queue_pair.h>

#include "memory/region_table.h"
#include "tests/support/frame_capture.h"
#include "tests/support/recording.h"
#include "tests/support/test_queues.h"
#include "transport/engine/engine.h"

namespace uroce::test {

/// Every right that a region of the transport's tests can have.
inline constexpr AccessFlags kAllAccess = AccessFlags(Access::local_write) | Access::remote_write |
                                          Access::remote_read | Access::remote_atomic | Access::flush_global;

/// Remembers what an engine reported.
class EventLog : public transport::EngineEvents {
 public:
  struct Async {
    AsyncEventType type;
    uint32_t object;
  };
  void on_completion_event(uint32_t cq_id) override { completions.push_back(cq_id); }
  void on_async_event(AsyncEventType type, uint32_t object) override { async.push_back({type, object}); }

  void on_wrong_key(const Gid& peer, uint32_t qpn) override { wrong_keys.emplace_back(peer, qpn); }
  void on_end(const transport::QpEnd& end) override { ends.push_back(end); }

  std::vector<uint32_t> completions;
  std::vector<Async> async;
  std::vector<std::pair<Gid, uint32_t>> wrong_keys;
  std::vector<transport::QpEnd> ends;
};

/// Registered memory with guards. `va` is what work requests and peers use; it is not the host address.
class TestRegion {
 public:
  TestRegion(memory::RegionTable& table, memory::PdId pd, uint64_t va, std::size_t size, AccessFlags access,
             uint64_t stream);

  uint64_t va() const { return va_; }
  memory::Key key() const { return key_; }
  std::span<std::byte> bytes() { return buffer_.bytes(); }
  /// The pattern stream that filled it.
  uint64_t stream() const { return stream_; }
  bool guards_intact() const { return buffer_.guards_intact(); }
  Sge sge(uint64_t offset, uint32_t length) const { return {va_ + offset, length, key_}; }
  /// Invalidates the key; the bytes stay.
  void deregister();

 private:
  memory::RegionTable& table_;
  GuardedBuffer buffer_;
  uint64_t va_;
  uint64_t stream_;
  memory::Key key_ = 0;
};

/// Attributes for a QP of the transport alone, with the defaults of QueuePair::connect().
struct ConnectOptions {
  static constexpr QueuePair::ConnectOptions kUsual{};
  uint32_t dest_qpn = 0;
  uint32_t sq_psn = 0;
  uint32_t rq_psn = 0;
  Mtu mtu = kUsual.path_mtu;
  AccessFlags access = kUsual.access;
  uint8_t max_rd_atomic = kUsual.max_rd_atomic;
  uint8_t max_dest_rd_atomic = kUsual.max_dest_rd_atomic;
  uint8_t min_rnr_timer = kUsual.min_rnr_timer;
  uint8_t timeout = kUsual.timeout;
  uint8_t retry_cnt = kUsual.retry_cnt;
  uint8_t rnr_retry = kUsual.rnr_retry;
  uint32_t qkey = 0x1234;  ///< UD
};

class TestEndpoint;

/// A queue pair and the application's end of its rings.
class TestQp {
 public:
  struct Options {
    uint32_t qpn = 0;
    QpType type = QpType::rc;
    memory::PdId pd = 1;
    QpCap cap{.max_send_wr = 64, .max_recv_wr = 64, .max_send_sge = 4, .max_recv_sge = 4, .max_inline_data = 256};
    bool signal_all = false;
    CongestionAlgorithm congestion = CongestionAlgorithm::device_default;
    TestCq* send_cq = nullptr;
    TestCq* recv_cq = nullptr;
    TestSrq* srq = nullptr;    ///< XRC target: where post_recv() posts
    uint32_t xrc_domain = 0;   ///< XRC target
    uint32_t remote_srqn = 0;  ///< XRC initiator: of requests that name none
    uint32_t client = 1;       ///< TestEndpoint::add_client()
  };
  TestQp(TestEndpoint& endpoint, const Options& options);
  ~TestQp();
  TestQp(const TestQp&) = delete;
  TestQp& operator=(const TestQp&) = delete;

  uint32_t qpn() const { return options_.qpn; }
  transport::Qp& qp() { return *qp_; }
  QpAttr query() const;
  QpState state() const { return query().state; }
  transport::QpTransportStatus status() const;

  /// Write the rings and ring the doorbell. False when the ring is full.
  bool post_send(const SendRequest& request);
  bool post_recv(const RecvRequest& request);
  bool has_send_room() { return send_producer_.room() != 0; }
  /// Rings for this QP whatever stands in its rings.
  void ring();

  void to_init(const ConnectOptions& options);
  void to_rtr(const ConnectOptions& options, const wire::Route& route, bool loopback = false);
  void to_rts(const ConnectOptions& options);
  void connect(const ConnectOptions& options, const wire::Route& route, bool loopback = false);
  /// A change of state with no other attribute (error, reset, SQD, SQD to RTS). `drain_event`: report
  /// when the send queue has drained.
  void set_state(QpState state, bool drain_event = false);

  /// TestEndpoint::move_to_new_engine().
  std::vector<std::byte> leave_engine(Nanos now);
  Result<void> enter_engine(std::span<const std::byte> snapshot, Nanos now);
  /// TestEndpoint::outlive_engine().
  std::vector<std::byte> outlive_engine(Nanos now);
  void enter_engine_unknown(Nanos now);

  queues::RingPlace send_ring() const { return sq_.place; }
  queues::RingPlace recv_ring() const { return rq_.place; }
  /// The receive of a shared queue that shared memory says it holds; nullopt: none.
  std::optional<uint64_t> held_recv() const {
    if (options_.type == QpType::xrc_target) return options_.srq->held_by(qpn());
    return held_->held.load() != 0 ? std::optional(held_->wr_id.load()) : std::nullopt;
  }

 private:
  TestEndpoint& endpoint_;
  Options options_;
  OwnedRing sq_;
  OwnedRing rq_;
  AlignedBytes flag_memory_;
  queues::DoorbellFlag* flag_;
  AlignedBytes held_memory_ = make_aligned(sizeof(queues::HeldRecv));
  queues::HeldRecv* held_ = reinterpret_cast<queues::HeldRecv*>(held_memory_.get());
  queues::RingProducer send_producer_;
  queues::RingProducer recv_producer_;
  transport::QpSpec spec_;
  transport::QpPtr qp_;
};

struct EndpointOptions {
  /// No HELLO unless a test asks for it. As many long windows as the queue pairs can ever need are quickly made.
  transport::EngineConfig engine{
      .max_qps = 64, .long_windows = 128, .settings = {.retransmission = Retransmission::go_back_n}};
  Gid gid = Gid::from_ipv4(0x0a000001);
  EthAddr mac{{2, 0, 0, 0, 0, 1}};
  uint32_t max_regions = 64;
  uint64_t seed = 1;
  bool keeps_recording = false;  ///< TestEndpoint::records()
  bool recorded = true;          ///< where Recording::wanted(): not where others write the engine's rings meanwhile
};

class TestEndpoint {
 public:
  explicit TestEndpoint(const EndpointOptions& options = {});

  transport::Engine& engine() { return *engine_; }
  memory::RegionTable& regions() { return regions_; }
  EventLog& events() { return events_; }
  FrameCapture& sink() { return sink_; }
  const EndpointOptions& options() const { return options_; }
  queues::DoorbellPoster& doorbells(uint32_t client = kDoorbellRing);
  std::byte* doorbell_memory() { return doorbell_memory_.get(); }

  /// Another client with a doorbell ring of its own. Lives as long as the endpoint; not in a move to a new engine.
  uint32_t add_client(const transport::Owner& owner);

  TestCq& make_cq(uint32_t entries = 1024);
  TestSrq& make_srq(uint32_t entries, uint32_t max_sge = 4, memory::PdId pd = 1);
  /// An XRC queue, which the engine knows by its number.
  TestSrq& make_xrc_srq(uint32_t domain, TestCq& cq, uint32_t entries, uint32_t max_sge = 4, memory::PdId pd = 1);
  /// Missing queues are made.
  TestQp& make_qp(TestQp::Options options);
  /// An address handle's number; the dgid of `route` may be a multicast group.
  uint32_t make_ah(const wire::Route& route, bool loopback = false, memory::PdId pd = 1);
  transport::AddressHandleTable& handles() { return handles_; }
  TestRegion& make_region(std::size_t size, AccessFlags access, memory::PdId pd = 1);

  /// The route from here to `peer`.
  wire::Route route_to(const TestEndpoint& peer) const;

  void inject(std::span<const std::byte> frame, Nanos now);
  void inject(std::span<const transport::RxFrame> frames, Nanos now);
  /// As the port's part does (pmd_glue): rules see what it receives, and sniffers what it sends.
  void offer_to_rules(std::span<const std::byte> frame, Nanos now, transport::FrameTakers takers);
  /// Polls until the engine has nothing to do. The test fails when it never comes to rest.
  void run(Nanos now);
  /// The engine's recording so far, where the options ask for one.
  std::vector<std::byte> records() const { return recordings_.back()->records(); }
  /// Engine::next_deadline() on the caller's clock.
  Nanos next_deadline() const;
  /// Ends the engine with its counters. Another one with the same configuration takes over the live queue pairs from
  /// their snapshots. Its clock shows `clock_ahead` more than the caller's from now on.
  void move_to_new_engine(Nanos now, Nanos clock_ahead = Nanos(0));

  /// The engine's thread has died at any instruction: another engine goes on with what it left. True where that does
  /// not say the state of one queue pair, which ends.
  bool outlive_engine(Nanos now);

  bool guards_intact() const;
  /// Receives of XRC queues that shared memory says targets hold.
  std::size_t held_of_xrc_queues() const;
  std::size_t qps() const { return qps_.size(); }
  TestQp& qp(std::size_t i) { return *qps_[i]; }

  static constexpr uint32_t kDoorbellRing = 1;

 private:
  /// A doorbell ring has a slot for each queue pair.
  uint32_t doorbell_slots() const { return std::bit_ceil(std::max(options_.engine.max_qps, 1024u)); }
  void make_engine(uint32_t doorbell_position);

  EndpointOptions options_;
  Nanos clock_ahead_{0};
  memory::RegionTable regions_;
  transport::AddressHandleTable handles_;
  EventLog events_;
  FrameCapture sink_;
  AlignedBytes doorbell_memory_ = make_aligned(queues::doorbell_bytes(doorbell_slots()));
  queues::DoorbellPoster poster_{doorbell_memory_.get(), doorbell_slots()};
  struct Client {
    explicit Client(uint32_t slots)
        : memory(make_aligned(queues::doorbell_bytes(slots))), poster(memory.get(), slots) {}
    AlignedBytes memory;
    queues::DoorbellPoster poster;
  };
  std::vector<Client> clients_;  // from the second on
  // The engine outlives QPs, which detach themselves, and dies before the queues it writes.
  std::vector<std::unique_ptr<TestRegion>> test_regions_;
  std::vector<std::unique_ptr<TestCq>> cqs_;
  std::vector<std::unique_ptr<TestSrq>> srqs_;
  std::vector<std::unique_ptr<Recording>> recordings_;  // of the engines, where asked for
  std::unique_ptr<transport::Engine> engine_;
  std::vector<std::unique_ptr<TestQp>> qps_;
  uint32_t next_cq_id_ = 1;
};

/// The route between two addresses.
wire::Route make_route(const EndpointOptions& from, const EndpointOptions& to);

}  // namespace uroce::test
