// Congestion control between an algorithm and the wire: pacing, and reports of congestion (IBTA annex A17.9).
#include <algorithm>

#include "transport/engine_core.h"

namespace uroce::transport {
namespace {

// A QP that comes late may send at once what it missed, worth so much time at its rate.
constexpr Nanos kMaxLag{8192};
// And nobody waits longer for the next packet, nanoseconds, however low the rate was when the last one left.
constexpr double kLongestGap = 100e6;
constexpr uint32_t kCnpReservedBytes = 16;
constexpr uint8_t kEcnCapable = 2;  // ECT(0)
// Around the payload of all data packets but a message's first: IPv4 or IPv6 without options, BTH, ICRC.
constexpr uint32_t kAroundPayload = 60;

// Of two reports the later may have travelled faster, so they can come closer together than they left.
Nanos reaction_interval(const EngineCore& core) {
  constexpr uint32_t kUsual = 50;
  const uint32_t us = core.config.congestion.dcqcn.cnp_interval_us;
  return std::chrono::microseconds(us != 0 ? us : kUsual) / 2;
}

}  // namespace

void regulate(EngineCore& core, Qp& qp) {
  QpCold& cold = *qp.cold;
  if (qp.type != QpType::rc) return;
  const CongestionSettings& settings = core.config.congestion;
  cold.algorithm =
      cold.spec.congestion == CongestionAlgorithm::device_default ? settings.algorithm : cold.spec.congestion;
  cold.congestion = make_congestion_control(cold.algorithm, settings, qp.mtu() + kAroundPayload,
                                            core.config.window_packets, core.now);
  qp.paced = false;
  qp.ecn = reacts_to_marks(cold.algorithm) ? kEcnCapable : 0;
}

void deregulate(EngineCore& core, Qp& qp) {
  core.pacing_wheel.cancel(qp.cold->pacing.wake);
  qp.cold->pacing.next_send = Nanos(0);
  qp.tx.notices &= static_cast<uint8_t>(~Notice::kCnp);
}

bool may_send_paced(EngineCore& core, Qp& qp) {
  CongestionControl& control = *qp.cold->congestion;
  if (core.now >= control.next_deadline()) control.on_timer(core.now);
  qp.paced = control.rate() != 0;
  Pacing& pacing = qp.cold->pacing;
  if (!qp.paced || core.now >= pacing.next_send) return true;
  if (!pacing.wake.armed()) {
    core.pacing_wheel.arm(pacing.wake, pacing.next_send);
    core.counters.paced_waits.add();
  }
  return false;
}

bool awaits_turn(const Qp& qp) {
  const auto& tx = qp.tx;
  if (!qp.paced || !qp.cold->pacing.wake.armed()) return false;
  if (tx.has_lost) return true;
  return tx.cursor == tx.oldest && qp.slot(tx.cursor).first_psn + tx.cursor_packet == tx.una;
}

void charge_paced(EngineCore& core, Qp& qp, const TxFrame& frame) {
  CongestionControl& control = *qp.cold->congestion;
  const uint32_t bytes =
      frame.header_length + frame.payload_length + frame.pad + static_cast<uint32_t>(wire::kIcrcBytes);
  control.on_sent(bytes, core.now);
  qp.paced = control.rate() != 0;
  if (!qp.paced) return;
  Pacing& pacing = qp.cold->pacing;
  const double cost = bytes * 8e9 / static_cast<double>(control.rate()) + pacing.owed_ns;
  const auto whole = static_cast<int64_t>(std::min(cost, kLongestGap));
  pacing.owed_ns = std::min(cost - static_cast<double>(whole), 1.0);
  pacing.next_send = std::max(pacing.next_send, core.now - kMaxLag) + Nanos(whole);
}

bool transmit_paced(EngineCore& core, Qp& qp) {
  bool& requests_first = qp.cold->pacing.requests_first;
  requests_first = !requests_first;
  if (!requests_first) return transmit_responses(core, qp) || transmit_requests(core, qp);
  const bool more = transmit_requests(core, qp);
  return transmit_responses(core, qp) || more;
}

void on_mark(EngineCore& core, Qp& qp) {
  core.counters.ecn_marked_received.add();
  const std::chrono::microseconds interval(core.config.congestion.dcqcn.cnp_interval_us);
  Notification& notification = qp.cold->notification;
  if (interval.count() == 0 || core.now < notification.next_cnp) return;
  notification.next_cnp = core.now + interval;
  qp.tx.notices |= Notice::kCnp;
  core.activate(qp);
}

namespace {

void send_cnp(EngineCore& core, Qp& qp) {
  TxFrame& frame = core.builder.next();
  std::memset(FrameBuilder::extended_headers(frame, *qp.route), 0, kCnpReservedBytes);
  core.builder.finish(frame, qp, wire::Opcode::cnp, Psn(0), kCnpReservedBytes, {.becn = true});
  qp.tx.notices &= static_cast<uint8_t>(~Notice::kCnp);
  core.counters.cnps_sent.add();
  ++qp.cold->notification.cnps_sent;
}

}  // namespace

bool send_notices(EngineCore& core, Qp& qp) {
  const auto due = [&](uint8_t notice) { return (qp.tx.notices & notice) != 0 && !core.builder.full(); };
  if (due(Notice::kCnp)) send_cnp(core, qp);
  if (due(Notice::kHello)) send_hello(core, qp);
  return qp.tx.notices == 0;
}

void on_cnp(EngineCore& core, Qp& qp) {
  core.counters.cnps_received.add();
  Notification& notification = qp.cold->notification;
  ++notification.cnps_received;
  CongestionControl* control = qp.cold->congestion.get();
  if (control == nullptr || core.now < notification.next_reaction) {
    core.counters.cnps_ignored.add();
    return;
  }
  notification.next_reaction = core.now + reaction_interval(core);
  control->on_cnp(core.now);
  qp.paced = control->rate() != 0;
}

}  // namespace uroce::transport
