// What the engine lends to requester, completer and responder: the burst's time, lists, timers and statistics.
#pragma once

#include <vector>

#include "base/random.h"
#include "transport/engine.h"
#include "transport/frame_builder.h"
#include "transport/multicast.h"
#include "transport/parking.h"
#include "transport/timer_wheel.h"

namespace uroce::transport {

/// Longest READ that one request asks for: the PSNs outstanding must stay below half the PSN space (9.7.1).
inline constexpr uint32_t kMaxReadPackets = 1u << 22;
/// Packets that may be out after a timeout. It may just be that the peer is slow, and then each packet that is sent
/// again makes it slower: a whole window at each timeout would keep it busy with duplicates until the retries are used
/// up.
inline constexpr uint32_t kWindowAfterTimeout = 4;

struct EngineCore {
  EngineCore(const EngineConfig& config_, EngineCounters& counters_, memory::RegionTable& regions_,
             EngineEvents& events_, const AddressHandleTable* handles_)
      : config(config_),
        counters(counters_),
        regions(regions_),
        events(events_),
        handles(handles_),
        gids(config_.gids),
        parking(config_.parking_frames),
        random(config_.seed),
        builder(config_.burst, std::bit_floor(std::clamp(config_.udp_source_ports, 1u, 64u))) {
    sent.reserve(config_.burst + 1);
  }

  const EngineConfig& config;
  EngineCounters& counters;
  memory::RegionTable& regions;
  EngineEvents& events;
  const AddressHandleTable* handles;
  std::vector<Gid> gids;  // of the port, now
  MulticastGroups groups;
  Nanos now{0};
  TimerWheel wheel;
  PacingWheel pacing_wheel;
  ParkingPool parking;
  Random random;
  FrameBuilder builder;
  // QPs with something to send, served in turn. Intrusive.
  Qp* active_head = nullptr;
  Qp* active_tail = nullptr;

  void activate(Qp& qp) {
    if (qp.on_active_list) return;
    qp.on_active_list = true;
    qp.tx.next_active = nullptr;
    (active_tail != nullptr ? active_tail->tx.next_active : active_head) = &qp;
    active_tail = &qp;
  }
  Qp* pop_active() {
    Qp* qp = active_head;
    if (qp == nullptr) return nullptr;
    active_head = qp->tx.next_active;
    if (active_head == nullptr) active_tail = nullptr;
    qp->on_active_list = false;
    return qp;
  }
  void forget_active(Qp& gone);

  // QPs whose requests complete once the burst being built has been taken.
  std::vector<Qp*> sent;
  void note_sent(Qp& qp) {
    if (sent.empty() || sent.back() != &qp) sent.push_back(&qp);
  }

  /// The QP must be looked at by `deadline`. Lazy: an earlier pending look is kept, and rearms itself.
  void set_deadline(Qp& qp, Nanos deadline) {
    qp.tx.deadline = deadline;
    if (deadline == kNever) return;
    if (qp.timer_pending && qp.tx.wheel_deadline <= deadline) return;
    qp.timer_pending = true;
    qp.tx.wheel_deadline = deadline;
    wheel.arm(qp.cold->timer, deadline);
  }

  void count_drop(wire::Drop reason) { counters.drops[static_cast<std::size_t>(reason)].add(); }

  memory::Translation translate(const Qp& qp, uint32_t key, uint64_t address, uint64_t length, AccessFlags needed) {
    return regions.translate(key, qp.pd, address, length, needed, qp.qpn);
  }
};

// --- requester.cc: what an application posted, onto the wire.

/// The slot of the started request that `psn` belongs to, searched from SQ index `index` on, which goes on to it;
/// nullptr: none.
SendSlot* find_request(Qp& qp, Psn psn, uint32_t& index);
/// Fetches, segments and sends until the builder is full or the QP may send no more. True: it could go on.
bool transmit_requests(EngineCore& core, Qp& qp);
/// Go-Back-N: sending resumes at `psn`, which lies in [una, sent).
void rewind_to(EngineCore& core, Qp& qp, Psn psn);
/// Sends again, or asks again for, what recovery has marked as lost. True: more remains, and could go on.
bool transmit_lost(EngineCore& core, Qp& qp);
/// What is unacknowledged may have left without asking for an ACK, because more was to follow; now nothing does.
void ask_for_ack(EngineCore& core, Qp& qp);

// --- unreliable.cc: sending for UC and UD, receiving for UC; datagram.cc: one UD packet, either way.

/// As transmit_requests(), without waiting for anybody.
bool transmit_unreliable(EngineCore& core, Qp& qp);
/// The sink has taken what was sent: the work requests are complete.
void complete_sent(EngineCore& core, Qp& qp);
void on_uc_request(EngineCore& core, Qp& qp, const wire::Packet& packet);
/// False: the slot's status says why not.
bool send_datagram(EngineCore& core, Qp& qp, SendSlot& slot);
void on_datagram(EngineCore& core, Qp& qp, const wire::Packet& packet);

// --- send_queue.cc: copying work requests in, completing them out.

enum class Fetch { fetched, empty };
/// Error state for a QP whose completion queue has overrun.
void fail_for_overrun(EngineCore& core, Qp& qp);
/// Copies the next WQE into its slot and validates the copy.
Fetch fetch_wqe(EngineCore& core, Qp& qp);
/// Completes the oldest WQE. Errors are always reported, success where signaled.
void complete_oldest(EngineCore& core, Qp& qp, WcStatus status);
/// Lets the application reuse the slots of completed WQEs.
void publish_completed(Qp& qp);
/// Moves the QP to error: `status` completes the oldest WQE unless it is success, the rest is flushed, then receives.
/// Answers that are due are dropped, or kept where a NAK is to follow them.
enum class Answers { drop, keep };
void enter_error(EngineCore& core, Qp& qp, WcStatus status = WcStatus::success, Answers answers = Answers::drop);
/// UC and UD: `status` completes the oldest WQE, the rest of the send queue is flushed, receiving goes on (SQE).
void enter_send_queue_error(EngineCore& core, Qp& qp, WcStatus status);
/// Flushes what has been posted to a QP in SQE.
void flush_sends(EngineCore& core, Qp& qp);
/// Flushes what has been posted to a QP in error.
void flush_posted(EngineCore& core, Qp& qp);
/// Reports sq_drained once the QP is in SQD and nothing is outstanding.
void check_drained(EngineCore& core, Qp& qp);

// --- local_operation.cc: binding windows, invalidating keys.

/// Does what a local work request asks for; the status that it completes with.
WcStatus run_local(EngineCore& core, const Qp& qp, const SendSlot& slot);
/// Completes local work requests that were run, up to the first other one. True: there were some.
bool complete_local(EngineCore& core, Qp& qp);

// --- answers.cc: what READs and atomics bring.

void on_read_response(EngineCore& core, Qp& qp, const wire::Packet& packet);
void on_atomic_ack(EngineCore& core, Qp& qp, const wire::Packet& packet);
/// Places what came before its turn for `slot`, now the oldest. False: it was wrong, and the QP is in error.
bool place_held(EngineCore& core, Qp& qp, SendSlot& slot);
void forget_held(EngineCore& core, Qp& qp);

// --- completer.cc: ACKs, NAKs, and what is complete with them.

void on_ack(EngineCore& core, Qp& qp, const wire::Packet& packet);
/// Una goes on as far as what is known to have arrived allows: an ACK for SENDs and WRITEs, and every packet of the
/// answer for READs and atomics. Completes what is passed. True: something was.
bool advance(EngineCore& core, Qp& qp);
/// Everything before `end` has been executed by the peer.
void acknowledge(EngineCore& core, Qp& qp, Psn end);
/// Credits may rise or fall; they never take back what has been sent (9.7.7.2.4).
void take_credits(EngineCore& core, Qp& qp, const wire::Aeth& aeth);
/// The QP's deadline has come: ACK timeout or the end of an RNR wait.
void on_timer(EngineCore& core, Qp& qp);

/// ACKs and NAKs, of the frame's AETH. `executed`: the peer expects this PSN next.
void on_reply(EngineCore& core, Qp& qp, const wire::Packet& packet, Psn executed);
/// After una or what recovery knows has moved: what was lost is found again, timers start afresh, the window opens.
/// `before`: una as it was.
void progressed(EngineCore& core, Qp& qp, Psn before);
/// When the QP's next look for an answer is, from now on.
void arm_ack_timer(EngineCore& core, Qp& qp);
/// One retry fewer. False: there was none left, and the QP is in error.
bool spend_retry(EngineCore& core, Qp& qp);
/// [from, from + count) is over.
void forget_marks(Recovery& r, Psn from, uint32_t count);
/// An AETH with the credits and the MSN of now where it is an ACK.
void store_aeth(std::byte* at, const Qp& qp, uint8_t syndrome, uint32_t msn);

// --- hello.cc: is the peer one of us?

/// From RTR on.
void begin_recovery(EngineCore& core, Qp& qp);
/// Forgets what is parked and what the peer is. In ERROR, before RESET and at the end.
void end_recovery(EngineCore& core, Qp& qp);
void send_hello(EngineCore& core, Qp& qp);
/// Requests are out, and the peer has not proven what it is: a HELLO follows when it does not soon. Who sends nothing
/// needs no answer, and a peer that is not at RTR yet hears none.
void await_hello(EngineCore& core, Qp& qp);
/// What came shows that the peer heard our HELLO. True: it is a uroce peer, from now on.
bool prove_peer(EngineCore& core, Qp& qp);
void on_hello(EngineCore& core, Qp& qp, const wire::Packet& packet);
void on_hello_timer(EngineCore& core, Qp& qp);
/// The peer does not speak as a uroce peer any more: Go-Back-N, and HELLO anew.
void distrust_peer(EngineCore& core, Qp& qp);

// --- sack.cc: what has arrived out of order, kept, told, and heard of.

/// Keeps a request that is ahead of its turn, and tells the peer.
void park(EngineCore& core, Qp& qp, const wire::Packet& packet);
/// Runs what is next after the request at `closed`, which has closed a gap.
void unpark(EngineCore& core, Qp& qp, Psn closed);
/// Drops everything that is kept.
void forget_parked(EngineCore& core, Qp& qp);
/// Remembers what the next SACK echoes.
void note_arrival(EngineCore& core, Qp& qp, const wire::Packet& packet, bool duplicate);
void send_sack(EngineCore& core, Qp& qp);
void on_sack(EngineCore& core, Qp& qp, const wire::Packet& packet);

// --- selective.cc: what is lost, and when to send it again.

/// A request packet leaves. Returns its tag.
uint8_t note_departure(EngineCore& core, Qp& qp, Psn psn);
/// An answer to `psn` has come: the round-trip time that it tells, 0 for none.
Nanos sample_rtt(EngineCore& core, Qp& qp, Psn psn);
/// `packets` more have arrived at the peer.
void tell_congestion_control(EngineCore& core, Qp& qp, Nanos rtt, uint32_t packets);
/// Answers before `horizon` have left the peer: those that have not arrived are asked for again, in time.
void ask_for_missing(EngineCore& core, Qp& qp, Psn horizon);
/// Requests overtaken by too many others are lost.
void mark_overtaken(EngineCore& core, Qp& qp);
void mark_lost(EngineCore& core, Qp& qp, Psn psn, Cause cause);
/// Request `psn` is known to have arrived; `overtaken_by`: one past the newest that had before.
void note_delivered(Qp& qp, Psn psn, Psn overtaken_by);
/// What was sent with `psn` has come at last, after others before `overtaken_by`.
void note_late(Qp& qp, Psn psn, Psn overtaken_by);
/// The peer had what was sent again already.
void note_spurious(EngineCore& core, Qp& qp);
/// How long to wait for an answer, at the `round`th time.
Nanos probe_timeout(const Qp& qp, uint32_t round);
void on_quiet(EngineCore& core, Qp& qp);
/// Applies what congestion control and the peer allow to the window, and says whether there is a rate.
void update_window(EngineCore& core, Qp& qp);

// --- regulate.cc: congestion control and the wire.

/// Gives the QP the algorithm that it or the device asks for; before RTR.
void regulate(EngineCore& core, Qp& qp);
/// No wait goes on and no report is due; the algorithm stays.
void deregulate(EngineCore& core, Qp& qp);
/// May a data packet, of a request or a READ response, leave now? If not, the QP is served again when it may.
bool may_send_paced(EngineCore& core, Qp& qp);
inline bool may_send_data(EngineCore& core, Qp& qp) { return !qp.paced || may_send_paced(core, qp); }
/// It has left.
void charge_paced(EngineCore& core, Qp& qp, const TxFrame& frame);
inline void charge_data(EngineCore& core, Qp& qp, const TxFrame& frame) {
  if (qp.paced) charge_paced(core, qp, frame);
}
/// What is to be answered next has yet to leave, when its turn comes: silence means nothing.
bool awaits_turn(const Qp& qp);
/// Requests and responses in turns. True: it could go on.
bool transmit_paced(EngineCore& core, Qp& qp);
/// A data packet came marked.
void on_mark(EngineCore& core, Qp& qp);
/// Sends what is due beside requests and answers. False: it did not all find room.
bool send_notices(EngineCore& core, Qp& qp);
void on_cnp(EngineCore& core, Qp& qp);

// --- responder.cc: requests; response_queue.cc: the answers.

void on_request(EngineCore& core, Qp& qp, const wire::Packet& packet);
/// The request with the PSN that is expected.
void take_request(EngineCore& core, Qp& qp, const wire::Packet& packet);
/// Sends queued responses, then the newest ACK or NAK. True: more remains.
bool transmit_responses(EngineCore& core, Qp& qp);
/// An ACK or NAK for `psn`, sent after the responses queued so far; one is kept, the newest.
void queue_reply(EngineCore& core, Qp& qp, Psn psn, uint8_t syndrome);

// --- replay.cc: what duplicates need.

/// Takes the oldest slot of the replay store. Nullptr: the peer has more outstanding than was agreed (9.7.4.1.7).
Resource* new_resource(Qp& qp);
/// Queues packets [next, end) of the answer that `resource` stands for. There is room for every original.
void push_job(EngineCore& core, Qp& qp, const Resource& resource, uint32_t next, uint32_t end, bool original);
/// A request whose PSN was executed before: acknowledged or answered again, never executed again.
void on_duplicate(EngineCore& core, Qp& qp, const wire::Packet& packet);

// --- receive.cc: receive work requests.

enum class TakeRecv { taken, empty, invalid };
TakeRecv take_recv(EngineCore& core, Qp& qp);
/// Places `payload` at byte `offset` of a scatter list.
WcStatus scatter(EngineCore& core, const Qp& qp, std::span<const Sge> sges, uint64_t offset,
                 std::span<const std::byte> payload);
/// Places `payload` at byte `offset` of the receive in use.
WcStatus place_received(EngineCore& core, Qp& qp, uint64_t offset, std::span<const std::byte> payload);
/// Completes the receive in use.
void complete_recv(EngineCore& core, Qp& qp, const queues::Cqe& cqe, bool solicited);
/// UC and UD: completes the receive in use with a fault of its own, which ends the QP.
void fail_recv(EngineCore& core, Qp& qp, WcStatus status);
/// Flushes the receive in use and all that are posted.
void flush_receives(EngineCore& core, Qp& qp);
/// Receives that may be granted to the peer as credits, as an AETH credit code.
uint8_t credits_now(const Qp& qp);

}  // namespace uroce::transport
