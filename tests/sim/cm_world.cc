#include "tests/sim/cm_world.h"

#include <fmt/format.h>

#include <algorithm>

#include "cm/ib/mad.h"
#include "tests/support/cm_host.h"

namespace uroce::test {

namespace {

using cm::CmEventKind;

constexpr uint64_t kService = 0x1060001;
constexpr const char* kKinds[] = {"request",      "reply",       "established",   "rejected",
                                  "disconnected", "unreachable", "timewait_exit", "withdrawn"};

constexpr Nanos kTimeWait{2'300'000'000};  // 19, and the peer's ACK delay 15

Nanos cm_time(uint8_t code) { return Nanos(int64_t{4096} << code); }

}  // namespace

struct CmWorld::Side : CmDriver<CmWorld::Side> {
  Side(CmWorld& world_, std::size_t index_, const cm::IbCmConfig& config)
      : CmDriver(config), world(world_), index(index_) {}
  void send(const cm::CmPath& path, const cm::Mad& mad) { world.send(index, path, mad); }
  void on_event(const cm::CmMessage& message) { world.on_event(index, message); }
  /// An MRA for a request, as other connection managers' applications send it.
  void ask_for_time(uint32_t id, uint8_t timeout) {
    const cm::CmConnection& c = *cm.find(id);
    send(c.path(), cm::make_mad(c.transaction_id, cm::MraMad{id, c.remote_id, cm::CmAnswered::req, timeout, {}}));
  }

  CmWorld& world;
  std::size_t index;
  Gid gid = Gid::from_ipv4(0x0a000001 + static_cast<uint32_t>(index));
};

CmWorld::CmWorld(const CmWorldOptions& options, FaultPolicy& faults)
    : options_(options), faults_(faults), random_(options.seed) {
  for (std::size_t i = 0; i < 2; ++i) {
    hosts_.push_back(std::make_unique<Side>(*this, i, cm::IbCmConfig{.ca_guid = i + 1, .seed = random_.next()}));
    static_cast<void>(hosts_[i]->cm.listen(kService, options.backlog, i));
  }
}

CmWorld::~CmWorld() = default;

std::string CmWorld::run() {
  for (uint32_t number = 1; number <= options_.connections; ++number) {
    at(now_ + Nanos(static_cast<int64_t>(random_.below(static_cast<uint64_t>(options_.spread.count()) + 1))),
       [this, number] { begin(number); });
  }
  if (options_.calm) {
    // Long enough for every repetition; then each end must know what the other does.
    advance(now_ + options_.spread + 3 * patience() + kTimeWait);
    compare_ends();
    for (auto& [key, c] : connections_) {
      if (c.phase == Phase::up && random_.chance(0.5)) disconnect(c);
    }
    advance(now_ + 2 * patience() + kTimeWait);
    // A REQ that was held up for longer than a packet lives may still make a connection that its sender knows nothing
    // of.
    options_.calm = false;
    for (auto& [key, c] : connections_) destroy(c);
  }
  advance(kNever);
  check_end();
  return violation_;
}

void CmWorld::at(Nanos time, std::function<void()> what) { happenings_.push({time, order_++, std::move(what)}); }

void CmWorld::soon(std::function<void()> what) {
  if (random_.chance(0.3)) return what();
  at(now_ + Nanos(static_cast<int64_t>(random_.below(static_cast<uint64_t>(options_.thinking.count())))),
     std::move(what));
}

void CmWorld::violate(const Connection* c, const std::string& what) {
  if (!violation_.empty()) return;
  violation_ = c == nullptr ? what
                            : fmt::format("connection {} at host {} ({}, id {:#x}, phase {}): {}", c->number, c->host,
                                          c->active ? "active" : "passive", c->id, static_cast<int>(c->phase), what);
  violation_ += fmt::format(" at {} ns", now_.count());
}

void CmWorld::expect_call(const Connection& c, const char* call, const Result<void>& result) {
  if (!result) violate(&c, fmt::format("{} failed: {}", call, result.error().text));
}

void CmWorld::advance(Nanos until) {
  while (violation_.empty()) {
    Nanos next = happenings_.empty() ? kNever : happenings_.top().time;
    const auto wakes = [&](const Side& side) {
      const Nanos deadline = side.cm.next_deadline();
      return deadline == kNever ? kNever : deadline + options_.lag;
    };
    for (const auto& side : hosts_) next = std::min(next, wakes(*side));
    if (next == kNever || next > until) break;
    now_ = std::max(now_, next);
    while (!happenings_.empty() && happenings_.top().time <= now_) {
      const auto what = happenings_.top().what;
      happenings_.pop();
      what();
    }
    for (const auto& side : hosts_) {
      if (wakes(*side) <= now_) side->poll(now_);
    }
  }
  if (until != kNever) now_ = std::max(now_, until);
}

void CmWorld::send(std::size_t host, const cm::CmPath& path, const cm::Mad& mad) {
  ++mads_;
  const Fate fate = faults_.next(now_);
  const bool lost = fate.drop || fate.corrupt;  // the ICRC finds what is corrupt
  if (trace_) {
    fmt::print("{:>12} host {} sends attribute {:#x} {}{}\n", now_.count(), host,
               static_cast<unsigned>(cm::parse_header(mad)->attribute), lost ? "lost" : "",
               fate.duplicate ? "twice" : "");
  }
  const auto deliver = [this, host, path, mad] { hosts_[1 - host]->on_mad(path.sgid, path.dgid, mad, now_); };
  if (!lost) at(now_ + options_.delay + fate.delay, deliver);
  if (fate.duplicate) at(now_ + options_.delay + fate.duplicate_delay, deliver);
}

Nanos CmWorld::interval() const { return cm_time(options_.cm_timeout) + cm_time(options_.ack_timeout); }

/// All repetitions of one message, an MRA's time, and the link's own.
Nanos CmWorld::patience() const {
  return (options_.retries + 2) * (interval() + options_.lag) + cm_time(14) + 4 * options_.delay + Nanos(1'000'000);
}

void CmWorld::expect_event(Connection& c) {
  c.since = now_;
  c.due = c.latest = now_ + patience();
}

void CmWorld::begin(uint32_t number) {
  const std::size_t host = random_.below(2);
  Side& side = *hosts_[host];
  Connection c{.host = host, .number = number, .active = true, .ud = random_.chance(options_.datagram)};
  const cm::CmRequest request{
      .service_id = kService,
      .type = c.ud                  ? QpType::ud
              : random_.chance(0.1) ? QpType::uc
              : random_.chance(0.1) ? QpType::xrc_initiator
                                    : QpType::rc,
      .path = {.sgid = side.gid, .dgid = hosts_[1 - host]->gid, .ack_timeout = options_.ack_timeout},
      .qpn = 2 * number + 100,
      .psn = number,
      .max_cm_retries = options_.retries,
      .remote_cm_timeout = options_.cm_timeout,
      .local_cm_timeout = options_.cm_timeout,
      .private_data = bytes_of(std::to_string(number))};
  const auto id = side.connect(request, now_);
  if (!id) return violate(&c, id.error().text);
  c.id = *id;
  Connection& kept = connections_[{host, *id}] = c;
  expect_event(kept);
  if (!options_.calm && random_.chance(0.05)) soon([this, &kept] { destroy(kept); });
}

void CmWorld::on_event(std::size_t host, const cm::CmMessage& message) {
  ++told_[static_cast<std::size_t>(message.kind)];
  if (trace_) {
    fmt::print("{:>12} host {} is told {} of {:#x}\n", now_.count(), host, kKinds[static_cast<int>(message.kind)],
               message.id);
  }
  if (message.kind == CmEventKind::request) return on_request(host, message);
  const auto found = connections_.find({host, message.id});
  if (found == connections_.end()) return violate(nullptr, "an event of a connection that never was");
  Connection& c = found->second;
  const auto expect = [&](bool holds) {
    if (!holds) violate(&c, fmt::format("{} must not be told now", kKinds[static_cast<int>(message.kind)]));
    return holds;
  };
  if (c.due && now_ > *c.due) violate(&c, fmt::format("an event came {} ns late", (now_ - *c.due).count()));
  c.due.reset();
  switch (message.kind) {
    case CmEventKind::reply:
      if (!expect(c.active && !c.ud && c.phase == Phase::asking)) return;
      c.phase = Phase::replied;
      if (message.reply.psn != c.number) violate(&c, "the reply is another's");
      return soon([this, &c] { finish_reply(c); });
    case CmEventKind::established:
      if (c.ud) {
        if (!expect(c.active && c.phase == Phase::asking)) return;
        c.was_up = true;
        return on_end(c);
      }
      if (!expect(!c.active && c.phase == Phase::answered)) return;
      return go_up(c);
    case CmEventKind::rejected:
      if (!expect(c.phase < Phase::closing)) return;
      return on_end(c);
    case CmEventKind::unreachable:
      if (!expect(c.phase == Phase::asking || c.phase == Phase::answered)) return;
      if (now_ - c.since < (options_.retries + 1) * interval()) violate(&c, "given up early");
      c.unreachable = true;
      return on_end(c);
    case CmEventKind::disconnected:
      if (!expect(c.phase == Phase::answered || c.phase == Phase::replied || c.phase == Phase::up ||
                  c.phase == Phase::closing)) {
        return;
      }
      return on_end(c);
    case CmEventKind::timewait_exit:
      if (!expect(c.phase == Phase::ended)) return;
      c.phase = Phase::rested;
      return;
    default: return;
  }
}

void CmWorld::on_request(std::size_t host, const cm::CmMessage& message) {
  Connection c{.host = host, .id = message.id, .active = false, .ud = message.request.type == QpType::ud};
  c.number = static_cast<uint32_t>(std::stoul(text_of(message.request.private_data)));
  c.phase = Phase::asked;
  c.latest = now_ + options_.thinking;
  if (connections_.contains({host, message.id})) return violate(&c, "its id was used before");
  if (!c.ud && message.request.psn != c.number) violate(&c, "the request is another's");
  const cm::CmConnection* known = hosts_[host]->cm.find(message.id);
  if (known == nullptr || known->active) violate(&c, "the connection cannot be found");
  Connection& kept = connections_[{host, message.id}] = c;
  soon([this, &kept] { answer(kept); });
}

void CmWorld::answer(Connection& c) {
  if (c.phase != Phase::asked) return;
  if (options_.calm) return accept(c);
  const uint64_t choice = random_.below(10);
  if (choice == 0) return reject(c);
  if (choice == 1) return destroy(c);
  if (choice == 2 && !c.ud) {
    hosts_[c.host]->ask_for_time(c.id, 14);
    // Longer than the peer would wait otherwise.
    return at(now_ + cm_time(13), [this, &c] { accept(c); });
  }
  accept(c);
}

void CmWorld::accept(Connection& c) {
  if (c.phase != Phase::asked) return;
  c.phase = c.ud ? Phase::ended : Phase::answered;
  const cm::CmReply reply{.qpn = 2 * c.number + 101, .psn = c.number, .ack_delay = 0};
  expect_call(c, "accept", hosts_[c.host]->accept(c.id, reply, now_));
  if (c.ud) return soon([this, &c] { destroy(c); });
  expect_event(c);
  if (options_.calm || !random_.chance(0.1)) return;
  soon([this, &c] { random_.chance(0.5) ? destroy(c) : disconnect(c); });
}

void CmWorld::reject(Connection& c) {
  c.phase = Phase::ended;
  expect_call(c, "reject", hosts_[c.host]->reject(c.id, cm::RejReason::consumer_reject, {}, {}, now_));
  soon([this, &c] { destroy(c); });
}

void CmWorld::finish_reply(Connection& c) {
  if (c.phase != Phase::replied) return;
  const uint64_t choice = options_.calm ? 9 : random_.below(10);
  if (choice == 0) return reject(c);
  if (choice == 1) return destroy(c);
  if (choice == 2) return disconnect(c);
  expect_call(c, "ready", hosts_[c.host]->ready(c.id, {}, now_));
  go_up(c);
}

void CmWorld::go_up(Connection& c) {
  c.phase = Phase::up;
  c.was_up = true;
  if (options_.calm) return;
  if (random_.chance(0.5)) return soon([this, &c] { disconnect(c); });
  // Much later, so that the peer mostly comes first; an end that the peer knows nothing of is over then, too.
  at(now_ + 4 * options_.thinking, [this, &c] { random_.chance(0.5) ? destroy(c) : disconnect(c); });
}

void CmWorld::disconnect(Connection& c) {
  if (c.phase != Phase::up && c.phase != Phase::answered && c.phase != Phase::replied) return;
  c.phase = Phase::closing;
  expect_call(c, "disconnect", hosts_[c.host]->disconnect(c.id, {}, now_));
  expect_event(c);
  if (!options_.calm && random_.chance(0.2)) soon([this, &c] { destroy(c); });
}

void CmWorld::on_end(Connection& c) {
  c.phase = Phase::ended;
  if (!options_.calm) soon([this, &c] { destroy(c); });
}

void CmWorld::destroy(Connection& c) {
  if (c.phase == Phase::gone) return;
  c.phase = Phase::gone;
  c.due.reset();
  hosts_[c.host]->destroy(c.id, now_);
  if (hosts_[c.host]->cm.find(c.id) != nullptr) violate(&c, "destroyed, and still found");
}

/// Neither application has ended anything, and the link is good again: what one end believes, the other does too.
void CmWorld::compare_ends() {
  std::map<uint32_t, std::vector<const Connection*>> ends;
  for (const auto& [key, c] : connections_) {
    if (!c.ud) ends[c.number].push_back(&c);
  }
  for (const auto& [number, both] : ends) {
    const auto up = [&](bool active) {
      return std::count_if(both.begin(), both.end(),
                           [&](const Connection* c) { return c->active == active && c->phase == Phase::up; });
    };
    const bool heard = std::none_of(both.begin(), both.end(), [](const Connection* c) { return c->unreachable; });
    // A passive end that gave up says so once; where that gets lost, the active one learns by its traffic.
    if (up(false) > up(true) || (heard && up(false) != up(true))) {
      violate(both.front(), fmt::format("{} active and {} passive ends are up", up(true), up(false)));
    }
    for (const Connection* c : both) {
      // Where a REQ took very long, the passive end has just begun.
      const bool settled = c->phase == Phase::up || c->phase == Phase::ended || c->phase == Phase::rested;
      if (!settled && now_ > c->latest) violate(c, "it hangs");
      if (c->phase == Phase::ended && c->was_up) violate(c, "time-wait did not end");
    }
  }
}

void CmWorld::check_end() {
  for (const auto& [key, c] : connections_) {
    if (c.due) violate(&c, "an event never came");
    if (c.phase != Phase::gone) violate(&c, "it hangs");
  }
  for (const auto& side : hosts_) {
    if (side->cm.size() != 0) violate(nullptr, fmt::format("{} records are left", side->cm.size()));
    if (side->cm.counters().malformed.get() != 0) violate(nullptr, "an honest MAD was called malformed");
  }
}

}  // namespace uroce::test
