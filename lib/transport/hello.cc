// Discovery: is the peer one that keeps what arrives out of order?
//
// Each side draws an epoch for the connection and says it in a HELLO when the queue pair comes to RTR. Who hears one
// answers with both epochs. A HELLO that names our epoch comes from a peer that has heard us, on this connection: from
// then on recovery is selective. One that was lost, or came before the peer was at RTR, is repeated while requests are
// out. Any other receiver drops a HELLO, and after some of them it is left in peace.
#include "transport/engine_core.h"
#include "wire/recovery.h"

namespace uroce::transport {
namespace {

constexpr uint8_t kHellos = 11;
constexpr Nanos kFirstWait{1'000'000};
constexpr Nanos kLongestWait{1'000'000'000};
/// Linux's rxe before 5.12 does not look at the opcode's type and takes a HELLO for a response, which could complete
/// what it has sent, or fail it. One to requests long past it ignores as a repetition.
constexpr uint32_t kPsnsAgo = 1 << 22;

Retransmission setting_of(const EngineCore& core, const Qp& qp) {
  const Retransmission own = qp.cold->spec.retransmission;
  return own == Retransmission::device_default ? core.config.retransmission : own;
}

void ask(EngineCore& core, Qp& qp) {
  qp.tx.notices |= Notice::kHello;
  core.activate(qp);
}

// The peer has proven that it is there and hears us. It may be another one than before, which has kept nothing.
void adopt(EngineCore& core, Qp& qp, uint32_t epoch, uint16_t parking) {
  Recovery& r = *qp.tx.recovery;
  r.candidate_epoch = 0;
  if (r.peer_epoch == epoch) return;
  if (r.peer_epoch != 0) forget_parked(core, qp);
  // Said once and answered: as good as any other round trip.
  if (r.hellos_left + 1 == kHellos && !r.rtt.known()) r.rtt.sample(core.now - r.hello_sent);
  r.peer_epoch = epoch;
  r.peer_parking = parking;
  r.sacked.clear();
  r.highest = qp.tx.acked;
  r.quiet_rounds = 0;
  r.progress_at = core.now;
  qp.tx.selective = true;
  core.wheel.cancel(r.hello_timer);
  update_window(core, qp);
  if (!qp.tx.rnr_waiting && qp.state != QpState::rtr) arm_ack_timer(core, qp);
}

}  // namespace

void begin_recovery(EngineCore& core, Qp& qp) {
  Recovery& r = *qp.tx.recovery;
  r.reset();
  r.hello_timer.owner = &qp;
  r.open_window = core.config.window_packets;
  update_window(core, qp);
  const Retransmission setting = setting_of(core, qp);
  if (setting == Retransmission::go_back_n || qp.loopback) return;
  r.epoch = static_cast<uint32_t>(core.random.next()) | 1;
  r.asks_for_ever = setting == Retransmission::selective;
  r.hellos_left = kHellos;
  r.hello_wait = kFirstWait;
  ask(core, qp);
}

void end_recovery(EngineCore& core, Qp& qp) {
  if (qp.tx.recovery == nullptr) return;
  forget_parked(core, qp);
  forget_held(core, qp);
  core.wheel.cancel(qp.tx.recovery->hello_timer);
  qp.tx.selective = false;
  qp.tx.has_lost = false;
  qp.tx.notices = 0;
}

bool prove_peer(EngineCore& core, Qp& qp) {
  const Recovery& r = *qp.tx.recovery;
  if (qp.tx.selective || r.candidate_epoch == 0) return false;
  adopt(core, qp, r.candidate_epoch, r.candidate_parking);
  return true;
}

void distrust_peer(EngineCore& core, Qp& qp) {
  Recovery& r = *qp.tx.recovery;
  forget_parked(core, qp);
  r.sacked.clear();
  r.lost.clear();
  qp.tx.selective = false;
  qp.tx.has_lost = false;
  r.peer_epoch = r.candidate_epoch = 0;
  r.hellos_left = kHellos;
  r.hello_wait = kFirstWait;
  update_window(core, qp);
  ask(core, qp);
}

void send_hello(EngineCore& core, Qp& qp) {
  Recovery& r = *qp.tx.recovery;
  qp.tx.notices &= static_cast<uint8_t>(~Notice::kHello);
  const bool proven = r.peer_epoch != 0 && r.candidate_epoch == 0;
  const wire::Hello hello{.epoch = r.epoch,
                          .peer_epoch = proven ? r.peer_epoch : r.candidate_epoch,
                          .parking = static_cast<uint16_t>(r.parking()),
                          .answer = !proven};
  TxFrame& frame = core.builder.next();
  std::byte* const payload = core.builder.scratch();
  hello.store(payload);
  frame.copy_payload = true;
  core.builder.add_payload(frame, payload, wire::Hello::kBytes);
  core.builder.finish(frame, qp, wire::Opcode::hello, qp.rx.expected - kPsnsAgo, 0);
  core.counters.hellos_sent.add();
  r.hello_sent = core.now;
  if (proven || (r.hellos_left == 0 && !r.asks_for_ever)) return;
  if (r.hellos_left > 0) --r.hellos_left;
  if (r.asks_for_ever || qp.tx.una != qp.tx.sent) await_hello(core, qp);
}

void await_hello(EngineCore& core, Qp& qp) {
  Recovery& r = *qp.tx.recovery;
  if (r.epoch == 0 || r.peer_epoch != 0 || r.hello_timer.armed()) return;
  if (r.hellos_left == 0 && !r.asks_for_ever) return;
  core.wheel.arm(r.hello_timer, core.now + r.hello_wait);
  r.hello_wait = std::min(r.hello_wait * 2, kLongestWait);
}

void on_hello_timer(EngineCore& core, Qp& qp) {
  const Recovery& r = *qp.tx.recovery;
  if (qp.state != QpState::error && r.epoch != 0 && r.peer_epoch == 0) ask(core, qp);
}

void on_hello(EngineCore& core, Qp& qp, const wire::Packet& packet) {
  Recovery& r = *qp.tx.recovery;
  core.counters.hellos_received.add();
  const auto hello = wire::Hello::load(packet.payload);
  // A HELLO that names another epoch than ours was meant for another connection.
  const bool ours = hello && (hello->peer_epoch == 0 || hello->peer_epoch == r.epoch);
  if (r.epoch == 0 || !ours) {
    core.count_drop(wire::Drop::hello_invalid);
    return;
  }
  if (hello->peer_epoch == r.epoch) {
    adopt(core, qp, hello->epoch, hello->parking);
  } else if (hello->epoch == r.peer_epoch) {
    r.candidate_epoch = 0;  // Who was heard meanwhile has proven nothing.
  } else {
    r.candidate_epoch = hello->epoch;
    r.candidate_parking = hello->parking;
  }
  if (hello->answer) ask(core, qp);
}

}  // namespace uroce::transport
