#include "transport/qp/send_window.h"

#include <algorithm>

#include "transport/congestion/algorithms.h"

namespace uroce::transport {
namespace {

constexpr uint8_t kEcnCapable = 2;  // ECT(0), RFC 3168
// Around the payload of all data packets but a message's first: IPv4 or IPv6 without options, BTH, ICRC.
constexpr uint32_t kAroundPayload = 60;

}  // namespace

uint64_t pace_of(const Qp& qp) {
  const uint64_t limit = uint64_t{qp.cold->attr.rate_limit} * 1000;
  const CongestionControl* control = qp.cold->congestion.get();
  const uint64_t rate = control != nullptr ? control->rate() : 0;
  return limit == 0 || rate == 0 ? limit + rate : std::min(limit, rate);
}

void update_window(const Context& ctx, Qp& qp) {
  auto& tx = qp.tx;
  Recovery& r = *tx.recovery;
  uint32_t window = std::min({ctx.config.window_packets, r.open_window, PsnSet::kSize});
  if (r.short_of_memory) [[unlikely]]
    window = std::min(window, SendTimes::kFew);
  if (qp.selective) window = std::min(window, r.discovery.peer_capacity() + 1u);
  if (const CongestionControl* control = qp.cold->congestion.get(); control != nullptr) {
    window = std::min(window, control->window() + r.loss.not_in_flight());
    qp.paced = pace_of(qp) != 0;
    r.heeded_rtt = control->heeded_rtt();
  }
  tx.window = std::max(window, 1u);
}

void borrow_block(Context& ctx, Qp& qp) {
  static_assert(sizeof(Departure) == Context::kWindowBytes && SendTimes::kFew == Context::kLeastWindow);
  Recovery& r = *qp.tx.recovery;
  const bool fits = qp.cold->spec.window_packets <= ctx.config.window_packets;
  std::byte* const block = fits ? ctx.windows.take(qp.cold->user) : nullptr;
  if (block != nullptr) return r.loss.lengthen(block, qp.tx.sent);
  if (!r.short_of_memory) ctx.counters.windows_refused.add();
  r.short_of_memory = true;
  update_window(ctx, qp);
}

void choose_congestion_control(const Context& ctx, Qp& qp) {
  QpCold& cold = *qp.cold;
  const CongestionSettings& settings = ctx.config.settings.congestion;
  cold.algorithm =
      cold.spec.congestion == CongestionAlgorithm::device_default ? settings.algorithm : cold.spec.congestion;
  cold.congestion =
      make_congestion_control(cold.algorithm, settings, qp.mtu() + kAroundPayload, ctx.config.window_packets, ctx.now);
  qp.paced = pace_of(qp) != 0;
  qp.ecn = reacts_to_marks(cold.algorithm) ? kEcnCapable : 0;
}

}  // namespace uroce::transport
