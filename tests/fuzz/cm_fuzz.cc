// One connection manager against hostile peers and an application that calls anything at any time, also from within
// events. The input is a program: MADs that are nearly right, what was sent coming back, time steps, calls. For any
// input, each step does a bounded amount of work, events keep to their order, and nothing is left once all is
// destroyed.
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "cm/ib/mad.h"
#include "cm/rdma_header.h"
#include "tests/fuzz/input.h"
#include "tests/support/cm_driver.h"

namespace {

using namespace uroce;
using namespace uroce::test;
using cm::CmEventKind;

constexpr uint32_t kMaxConnections = 8;
constexpr uint64_t kService = 0x1060001;
const Gid kOurs = Gid::from_ipv4(0x0a000001);

class Program : public CmDriver<Program> {
 public:
  explicit Program(std::span<const uint8_t> bytes)
      : CmDriver({.ca_guid = 1, .max_connections = kMaxConnections, .seed = 1}), in_(bytes) {
    listen(4);
  }

  void run() {
    for (int steps = 0; !in_.empty() && steps < 400; ++steps) {
      sent_in_step_ = 0;
      step();
      // A step sends at most an answer, a DREQ to a stale connection, and a repetition of each connection.
      require(sent_in_step_ <= 3 * kMaxConnections + 8, "a step sent too much");
      require(cm.size() <= kMaxConnections, "more connections than there may be");
    }
    end();
  }

  void send(const cm::CmPath& path, const cm::Mad& mad) {
    require(cm::parse_header(mad).has_value(), "what was sent is no MAD of this class");
    require(path.sgid == kOurs || path.dgid != Gid{}, "sent to nowhere");
    ++sent_in_step_;
    if (sent_.size() < 64) sent_.push_back({path, mad});
  }

  void on_event(const cm::CmMessage& message) {
    if (message.kind == CmEventKind::request) {
      require(!owned_.contains(message.id), "a request for an id in use");
      owned_[message.id] = {};
      remember(message.id);
    }
    if (message.kind == CmEventKind::withdrawn) {
      require(owned_.erase(message.id) == 1, "a request withdrawn that was not the application's");
      return require(cm.find(message.id) == nullptr, "a withdrawn request that can be found");
    }
    const auto it = owned_.find(message.id);
    require(it != owned_.end(), "an event of an id that is not the application's");
    Told& told = it->second;
    const bool ends = message.kind == CmEventKind::rejected || message.kind == CmEventKind::disconnected ||
                      message.kind == CmEventKind::unreachable;
    require(!told.rested, "an event after time-wait");
    require(!ends || !told.ended, "two ends");
    require(message.kind != CmEventKind::reply || !told.replied, "two replies");
    require(message.kind != CmEventKind::established || !told.established, "established twice");
    require(!told.ended || message.kind == CmEventKind::timewait_exit, "an event after the end");
    require(message.kind != CmEventKind::timewait_exit || told.ended, "time-wait of a connection that is up");
    told.replied |= message.kind == CmEventKind::reply;
    told.established |= message.kind == CmEventKind::established;
    told.ended |= ends;
    told.rested |= message.kind == CmEventKind::timewait_exit;
    require(cm.find(message.id) != nullptr, "an event of an id that cannot be found");
    if (depth_ < 4 && (in_.take<uint8_t>() & 1) != 0) {
      ++depth_;
      call(message.id);
      --depth_;
    }
  }

 private:
  struct Told {
    bool replied = false, established = false, ended = false, rested = false;
  };
  struct Sent {
    cm::CmPath path;
    cm::Mad mad;
  };

  void remember(uint32_t id) {
    if (ids_.size() < 64) ids_.push_back(id);
  }
  uint32_t our_id() {
    const auto which = in_.take<uint8_t>();
    return ids_.empty() || which == 255 ? which : ids_[which % ids_.size()];
  }
  uint32_t peer_id() { return in_.take<uint8_t>() % 5u; }
  uint32_t peer_qpn() { return in_.take<uint8_t>() % 5u; }
  Gid peer() { return Gid::from_ipv4(0x0a000001 + in_.take<uint8_t>() % 3u); }

  void listen(uint32_t backlog) { static_cast<void>(cm.listen(kService, backlog, 1)); }

  std::vector<std::byte> data(uint32_t around) {
    const uint32_t length = in_.below(around + 2);
    return std::vector<std::byte>(length, in_.take<std::byte>());
  }

  void connect() {
    static constexpr QpType kTypes[] = {QpType::rc, QpType::uc, QpType::ud, QpType::xrc_initiator};
    cm::CmRequest request{.service_id = kService,
                          .type = kTypes[in_.take<uint8_t>() % 4],
                          .path = {.sgid = kOurs, .dgid = peer(), .ack_timeout = in_.take<uint8_t>()},
                          .qpn = peer_qpn(),
                          .max_cm_retries = in_.take<uint8_t>(),
                          .remote_cm_timeout = in_.take<uint8_t>(),
                          .private_data = data(cm::kReqPrivate)};
    request.path.ack_timeout %= 16;
    request.remote_cm_timeout %= 16;
    const auto id = CmDriver::connect(request, now_);
    if (!id) return;
    require(!owned_.contains(*id), "an id that is in use");
    owned_[*id] = {};
    remember(*id);
  }

  void call(uint32_t id) {
    switch (in_.take<uint8_t>() % 9) {
      case 0:
        static_cast<void>(CmDriver::accept(id, {.qpn = peer_qpn(), .private_data = data(cm::kRepPrivate)}, now_));
        break;
      case 1: {
        // In this order whatever the compiler: an input means the same to all.
        const auto info = data(cm::kRejInfo);
        const auto private_data = data(cm::kRejPrivate);
        static_cast<void>(CmDriver::reject(id, cm::RejReason::consumer_reject, info, private_data, now_));
        break;
      }
      case 2: static_cast<void>(CmDriver::ready(id, data(cm::kRtuPrivate), now_)); break;
      case 3: static_cast<void>(in_.take<uint8_t>()); [[fallthrough]];
      case 8: cm.delivered(id); break;
      case 4: static_cast<void>(CmDriver::disconnect(id, data(cm::kDreqPrivate), now_)); break;
      case 5: static_cast<void>(CmDriver::notify_established(id, now_)); break;
      case 6: connect(); break;
      default:
        CmDriver::destroy(id, now_);
        owned_.erase(id);
        require(cm.find(id) == nullptr, "destroyed, and still found");
    }
  }

  /// A message of any kind, right but for a few bytes, from a peer that may be the wrong one.
  void receive() {
    const Gid source = peer();
    cm::Mad mad = message(source);
    for (uint32_t edits = in_.take<uint8_t>() % 4u; edits > 0; --edits) {
      mad[in_.take<uint8_t>()] = in_.take<std::byte>();
    }
    const auto cut = in_.take<uint8_t>();
    const std::size_t length = cut < 240 ? mad.size() : mad.size() - in_.below(257);
    // A block of exactly its size, so that a read beyond it is seen.
    const std::vector<std::byte> bytes(mad.begin(), mad.begin() + static_cast<std::ptrdiff_t>(length));
    CmDriver::on_mad(source, kOurs, bytes, now_);
  }

  cm::Mad message(const Gid& source) {
    const uint64_t tid = in_.take<uint8_t>();
    switch (in_.take<uint8_t>() % 10) {
      case 0: {
        cm::ReqMad req{.local_id = peer_id(), .service_id = kService, .qpn = peer_qpn()};
        req.local_gid = source;
        req.remote_gid = kOurs;
        req.mtu = 3;
        req.max_cm_retries = in_.take<uint8_t>();
        req.local_cm_timeout = in_.take<uint8_t>();
        req.remote_cm_timeout = in_.take<uint8_t>();
        req.ack_timeout = in_.take<uint8_t>();
        return cm::make_mad(tid, req);
      }
      case 1: {
        const auto answered = static_cast<cm::CmAnswered>(in_.take<uint8_t>() % 4);
        return cm::make_mad(tid, cm::MraMad{peer_id(), our_id(), answered, in_.take<uint8_t>(), {}});
      }
      case 2: {
        const auto answered = static_cast<cm::CmAnswered>(in_.take<uint8_t>() % 4);
        return cm::make_mad(tid, cm::RejMad{peer_id(), our_id(), answered, in_.take<uint8_t>(), {}, {}});
      }
      case 3: {
        const auto id = peer_id();
        return cm::make_mad(tid, cm::RepMad{.local_id = id, .remote_id = our_id(), .qpn = peer_qpn()});
      }
      case 4: return cm::make_mad(tid, cm::RtuMad{peer_id(), our_id(), {}});
      case 5: return cm::make_mad(tid, cm::DreqMad{peer_id(), our_id(), peer_qpn(), {}});
      case 6: return cm::make_mad(tid, cm::DrepMad{peer_id(), our_id(), {}});
      case 7: return cm::make_mad(tid, cm::SidrReqMad{peer_id(), 0xffff, kService, {}});
      case 8: {
        cm::SidrRepMad rep{.request_id = our_id(), .status = in_.take<uint8_t>()};
        rep.qpn = peer_qpn();
        return cm::make_mad(tid, rep);
      }
      default: {
        cm::Mad mad;
        in_.fill(mad);
        static_cast<void>(cm::RdmaHeader::parse(mad));
        return mad;
      }
    }
  }

  /// A MAD that was sent reaches us: as its receiver, or as its sender's own echo.
  void reflect() {
    if (sent_.empty()) return;
    const Sent sent = sent_[in_.take<uint8_t>() % sent_.size()];
    if ((in_.take<uint8_t>() & 1) != 0) return CmDriver::on_mad(sent.path.sgid, sent.path.dgid, sent.mad, now_);
    CmDriver::on_mad(sent.path.dgid, sent.path.sgid, sent.mad, now_);
  }

  void step() {
    switch (in_.take<uint8_t>() % 16) {
      case 0:
      case 1: now_ += Nanos(int64_t{1} << in_.take<uint8_t>() % 34); break;
      case 2: now_ = std::max(now_, std::min(cm.next_deadline(), now_ + std::chrono::hours(1))); break;
      case 3:
      case 4:
      case 5: call(our_id()); break;
      case 6: connect(); break;
      case 7: reflect(); break;
      case 8:
        cm.stop_listening(kService);
        if ((in_.take<uint8_t>() & 1) != 0) listen(in_.take<uint8_t>() % 3u);
        break;
      default: receive(); break;
    }
    CmDriver::poll(now_);
  }

  void end() {
    while (!owned_.empty()) {
      const uint32_t id = owned_.begin()->first;
      owned_.erase(id);
      CmDriver::destroy(id, now_);
    }
    const Nanos start = now_;
    for (int polls = 0; cm.next_deadline() != kNever; ++polls) {
      require(polls < 100'000, "timers never end");
      now_ = std::max(now_, cm.next_deadline());
      CmDriver::poll(now_);
    }
    require(cm.size() == 0, "a connection is left after everything was destroyed");
    require(now_ - start < std::chrono::minutes(10), "the end took too long");
  }

  Input in_;
  std::map<uint32_t, Told> owned_;
  std::vector<uint32_t> ids_;
  std::vector<Sent> sent_;
  uint32_t sent_in_step_ = 0;
  int depth_ = 0;
  Nanos now_{1'000'000};
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  Program({data, size}).run();
  return 0;
}
