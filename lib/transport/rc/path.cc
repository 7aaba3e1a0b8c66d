#include "transport/rc/path.h"

#include <algorithm>
#include <bit>

#include "base/random.h"

namespace uroce::transport {
namespace {

/// A busy queue pair waits so many times as long as an idle one, because packets of both paths overtake each other.
constexpr uint32_t kBusyTimes = 3;

/// Packets that were sent before come one behind the other, and are one reason to leave.
constexpr Nanos kLeastStay{50'000};

bool may_leave(const Qp& qp) { return qp.cold->attr.av.flow_label == 0 && !qp.loopback; }

bool is_idle(const Qp& qp) { return qp.tx.una == qp.tx.sent && qp.responses.empty(); }

// Would a packet that overtakes others make the peer ask for all of them again? Nobody says when it has a response.
bool minds_order(const Qp& qp) {
  return !qp.selective &&
         std::ranges::any_of(qp.cold->replay.resources(), [](const Resource& one) { return one.packets != 0; });
}

// Of the bits that spraying leaves alone at least one differs, so that all ports of the queue pair do. It follows from
// the queue pair's state, as a replay needs it.
uint16_t other_port(const Context& ctx, const Qp& qp) {
  const uint16_t sprayed = ctx.builder.spray(Psn(Psn::kMask));
  const int shift = std::popcount(sprayed);
  const uint64_t state = uint64_t{qp.qpn} << 40 ^ uint64_t { qp.dest_qpn } << 16 ^ qp.udp_source;
  const uint64_t drawn = Random(state + qp.cold->path_changes).below((wire::kLeastSourcePort ^ 0xffffu) >> shift) + 1;
  return static_cast<uint16_t>(qp.udp_source ^ drawn << shift);
}

void change_port(Context& ctx, Qp& qp, uint16_t port) {
  qp.udp_source = port;
  ++qp.cold->path_changes;
  ctx.counters.path_changes.add();
}

// Only the peer knows which ports lead to its engine.
Outcome ask_for_port(Qp& qp, uint16_t wish) {
  qp.tx.recovery->port.wish = wish;
  qp.tx.control_frames |= ControlFrame::kHello;
  return Outcome::wake();
}

}  // namespace

Outcome leave_congested_path(Context& ctx, Qp& qp) {
  const uint32_t most = ctx.config.settings.congestion.plb_rounds;
  CongestedRounds& congested = qp.cold->congestion->congested_rounds();
  const uint32_t rounds = congested.count(ctx.now);
  if (most == 0 || rounds < most || !may_leave(qp)) return {};
  const bool idle = is_idle(qp);
  if (!idle && (!qp.selective || rounds / kBusyTimes < most)) return {};
  if (minds_order(qp)) return {};
  const bool asks = qp.tx.recovery->port.peers != 0;
  // The answer to a HELLO would not wait until nothing is in flight.
  if (asks && !qp.selective) return {};
  congested.begin_again();
  const uint16_t port = other_port(ctx, qp);
  if (asks) return ask_for_port(qp, port);
  change_port(ctx, qp, port);
  return {};
}

Outcome leave_dead_path(Context& ctx, Qp& qp) {
  PortChoice& choice = qp.tx.recovery->port;
  if (ctx.config.settings.congestion.plb_rounds == 0 || !may_leave(qp) || ctx.now - choice.left_at < kLeastStay)
    return {};
  choice.left_at = ctx.now;
  change_port(ctx, qp, other_port(ctx, qp));
  return choice.peers != 0 ? ask_for_port(qp, qp.udp_source) : Outcome{};
}

void take_port(Context& ctx, Qp& qp, uint16_t port) {
  PortChoice& choice = qp.tx.recovery->port;
  const bool wished = choice.wish != 0;
  choice.wish = 0;
  choice.peers = port;
  if (!may_leave(qp) || port == qp.udp_source) return;
  if (wished) return change_port(ctx, qp, port);
  qp.udp_source = port;
}

}  // namespace uroce::transport
