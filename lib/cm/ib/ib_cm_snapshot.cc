// A connection manager that goes on with what another one has.
#include <cerrno>

#include <fmt/format.h>

#include "base/psn.h"
#include "base/wr_opcodes.h"
#include "cm/ib/ib_cm.h"

namespace uroce::cm {
namespace {

/// Longer than any timer runs.
constexpr Nanos kLongestTimer = std::chrono::hours(5);
constexpr uint8_t kMaxTimeoutCode = 31;
constexpr uint8_t kMostRepetitions = 15;

std::optional<Nanos> time_left(const TimerNode& timer, Nanos now) {
  if (!timer.armed()) return std::nullopt;
  return std::max(Nanos(static_cast<int64_t>(timer.tick) * TimerWheel::kTickNanos) - now, Nanos(0));
}

bool is_repeated(CmState state) {
  return state == CmState::req_sent || state == CmState::rep_sent || state == CmState::dreq_sent ||
         state == CmState::sidr_sent;
}

bool fits(const CmRequest& request) {
  const std::size_t most = request.type == QpType::ud ? kSidrReqPrivate : kReqPrivate;
  const auto mtu = static_cast<unsigned>(request.path.mtu);
  return is_known(request.type) && request.type != QpType::raw_packet && mtu >= 1 && mtu <= 5 &&
         request.path.ack_timeout <= kMaxTimeoutCode && request.remote_cm_timeout <= kMaxTimeoutCode &&
         request.local_cm_timeout <= kMaxTimeoutCode && request.max_cm_retries <= kMostRepetitions &&
         request.qpn <= Psn::kMask && request.psn <= Psn::kMask && request.private_data.size() <= most;
}

bool fits(const CmReply& reply) {
  return reply.qpn <= Psn::kMask && reply.psn <= Psn::kMask && reply.ack_delay <= kMaxTimeoutCode &&
         reply.private_data.size() <= kMadBytes;
}

/// The parts count on these rules, which all connections keep.
bool makes_sense(const ConnectionSnapshot& snapshot) {
  const CmConnection& c = snapshot.c;
  const auto is_time = [](Nanos time) { return time >= Nanos(0) && time <= kLongestTimer; };
  const bool times = is_time(c.interval) && is_time(snapshot.timer.value_or(Nanos(0)));
  const bool known =
      c.id != 0 && c.state <= CmState::closed && c.probe <= CmProbe::answered && c.retries_left <= kMostRepetitions;
  if (!known || !times || !fits(c.request) || !fits(c.reply)) return false;
  if (c.remote_qpn > Psn::kMask || c.remote_psn > Psn::kMask || c.local_qpn > Psn::kMask) return false;
  if (c.found_by_qpn && c.ud()) return false;
  const bool sidr = c.state == CmState::sidr_sent || c.state == CmState::sidr_received;
  if (c.ud() && !sidr && c.state != CmState::closed) return false;
  if (!c.ud() && sidr) return false;
  const bool rests = c.state == CmState::timewait || c.state == CmState::closed;
  const bool repeats = is_repeated(c.state) || c.state == CmState::established || (snapshot.timer && !rests);
  if (repeats && !c.last) return false;
  // Nobody but the timer ends a connection without an owner.
  if (!c.owned && !rests && c.state != CmState::dreq_sent) return false;
  const bool ends_by_timer = is_repeated(c.state) || c.state == CmState::timewait || !c.owned;
  return snapshot.timer.has_value() || !ends_by_timer;
}

}  // namespace

std::vector<ConnectionSnapshot> IbCm::snapshot(Nanos now) const {
  std::vector<ConnectionSnapshot> out;
  for (const CmRecord* const r : table_.all()) out.push_back({.c = r->c, .timer = time_left(r->timer, now)});
  return out;
}

Result<void> IbCm::adopt(const ConnectionSnapshot& snapshot, Nanos now) {
  const CmConnection& c = snapshot.c;
  if (!makes_sense(snapshot)) {
    return fail(EPROTO, fmt::format("connection {:#x} in state '{}' makes no sense", c.id, name(c.state)));
  }
  CmRecord* const r = table_.adopt(c);
  if (r == nullptr) {
    return fail(EPROTO, fmt::format("connection {:#x} has numbers of another one, or is one too many", c.id));
  }
  if (snapshot.timer) table_.start_timer(*r, now + *snapshot.timer, now);
  if (!c.owned && c.state == CmState::closed) table_.retire(*r);
  return {};
}

bool IbCm::wait(uint32_t id, const std::shared_ptr<Backlog>& backlog) {
  CmRecord* const r = table_.find(id);
  if (r == nullptr || r->waits_in != nullptr || r->c.delivered || backlog->full()) return false;
  if (r->c.state != CmState::req_received && r->c.state != CmState::sidr_received) return false;
  table_.wait(*r, backlog);
  return true;
}

}  // namespace uroce::cm
