// A queue pair's state, grouped by role. All of it belongs to one engine's thread.
//
// Qp is the hot part: what a packet in steady flow touches, at most four cache lines. QpCold holds the rest.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <uroce/error.h>

#include "base/psn.h"
#include "base/time.h"
#include "base/timer_wheel.h"
#include "transport/congestion/cnp.h"
#include "transport/congestion/congestion_control.h"
#include "transport/congestion/pacer.h"
#include "transport/loss/retry_budget.h"
#include "transport/qp/credits.h"
#include "transport/qp/inbound_message.h"
#include "transport/qp/key_brake.h"
#include "transport/qp/recovery.h"
#include "transport/qp/replay_store.h"
#include "transport/qp/response_queue.h"
#include "transport/qp/send_cursor.h"
#include "transport/qp/send_slot.h"
#include "transport/qp/spec.h"
#include "wire/packet.h"

namespace uroce::transport {

struct Qp;

struct alignas(64) Line {
  std::byte bytes[64];
};

struct QpCold {
  QpSpec spec;
  QpAttr attr;                ///< as set; a query adds the current state and PSNs
  Srq* srq = nullptr;         ///< XRC target: while a request or a receive in use has it
  uint32_t srqn = 0;          ///< XRC target: of the newest request
  Qp* next_holder = nullptr;  ///< Srq::holders
  Qp* previous_holder = nullptr;
  uint32_t held_place = 0;       ///< XRC target: in Srq::held, counted from 1; 0: none
  std::vector<Line> send_slots;  ///< ring of SendSlot, one per SQ entry, from the second line on
  uint32_t send_slot_stride = 0;
  uint64_t recv_wr_id = 0;     ///< of the receive in use
  std::vector<Sge> recv_sges;  ///< of the receive in use, copied
  ReplayStore replay;
  std::shared_ptr<const wire::RouteTemplate> route;           ///< shared by the QPs towards one peer
  std::unique_ptr<Recovery> recovery;                         ///< RC, from RTR on
  CongestionAlgorithm algorithm = CongestionAlgorithm::none;  ///< in use
  std::unique_ptr<CongestionControl> congestion;              ///< RC, from RTR on; nullptr: none
  Pacer pacer;
  CnpLimiter cnp;
  uint32_t path_changes = 0;
  KeyBrake key_brake;  ///< UC
  bool communication_established = false;
  bool sq_drained_reported = false;
  uint32_t flush_until = 0;  ///< UC and UD, with Qp::flushing in RTS: SQ index of the first request to be sent
  bool on_flush_queue = false;
  Qp* next_in_flush_queue = nullptr;
  Qp* previous_in_flush_queue = nullptr;
  // A line that each request touches. A timer that ends reads no other one to find out that nothing is due.
  alignas(64) Nanos wheel_deadline = kNever;  ///< when ack_timer fires, with timer_pending
  uint16_t user = 0;                          ///< whom it works for, a number of the engine's
  bool timer_pending = false;                 ///< ack_timer is armed for wheel_deadline
  Qp* qp = nullptr;                           ///< whose part this is
  // The engine's timers. The owner of ack_timer is this; that of the others is the QP.
  static constexpr uint16_t kHelloKind = 1;  ///< TimerNode::kind of hello_timer
  TimerNode ack_timer;
  TimerNode hello_timer;
  TimerNode pacing_timer;
};

/// Frames that belong to no request and no response. Bits of Requester::control_frames: which of them are due.
struct ControlFrame {
  static constexpr uint8_t kHello = 1;
  static constexpr uint8_t kCnp = 2;
};

struct alignas(64) Qp {
  // --- Line 0: set by modify, read by both roles.
  uint32_t qpn = 0;
  uint32_t dest_qpn = 0;
  memory::PdId pd = 0;
  QpType type = QpType::rc;
  QpState state = QpState::reset;
  uint8_t mtu_shift = 10;
  uint8_t max_rd_atomic = 0;
  uint16_t pkey = 0xffff;
  uint16_t udp_source = 0;
  uint8_t timeout = 0;
  uint8_t retry_cnt = 0;
  uint8_t rnr_retry : 3 = 0;
  uint8_t min_rnr_timer : 5 = 0;
  uint8_t ecn = 0;  ///< of data packets, 2 bits; 0: as in the route
  AccessFlags access{};
  bool loopback : 1 = false;
  bool signal_all : 1 = false;
  bool paced : 1 = false;      ///< pace_of() is not 0
  bool selective : 1 = false;  ///< the peer is a uroce peer: selective retransmission
  bool discovers : 1 = false;  ///< peer discovery has begun (recovery->discovery)
  bool flushing : 1 = false;   ///< UC and UD: sends that stood in the queue at an error are not flushed yet
  bool rung : 1 = true;        ///< work requests may be posted that were not fetched: has_posted()
  bool on_run_queue = false;
  wire::Seal seal{};  ///< of frames to the peer: begin_selective()
  CqWriter* send_cq = nullptr;
  /// The jobs are in cold->replay. A requester's turn reads whether a response is due without the responder's line.
  ResponseQueue responses;
  QpCold* cold = nullptr;
  const wire::RouteTemplate* route = nullptr;

  // --- Lines 1 and 2: requester and completer.
  struct alignas(64) Requester {
    // Line 1: a responder's turn finds here that there is nothing to request, and the client that pays for it.
    queues::RingConsumer sq;  ///< next() is the first WQE not yet fetched
    SendCursor cursor;
    Qp* next_in_run_queue = nullptr;
    Qp* previous_in_run_queue = nullptr;
    Recovery* recovery = nullptr;  ///< cold->recovery
    uint16_t owner = 0;            ///< the client that it works for, a number of the engine's
    LostPackets lost;
    uint8_t control_frames = 0;  ///< bits of ControlFrame: those that are due
    bool rnr_waiting = false;
    uint8_t rd_atomic = 0;          ///< READs and atomics outstanding
    uint8_t since_ack_request = 0;  ///< packets since the last that asked for an ACK
    uint8_t max_sge = 1;
    // Line 2.
    SendSlot* slots = nullptr;
    queues::DoorbellFlag* doorbell = nullptr;
    Nanos deadline = kNever;  ///< ACK timeout or end of the RNR wait
    SendCredits credits;
    Psn una;                   ///< oldest unacknowledged PSN
    Psn next;                  ///< PSN of the next new WQE
    Psn acked;                 ///< one past the newest PSN that the peer has executed; responses may be missing
    Psn sent;                  ///< one past the newest PSN ever sent
    uint32_t window = 0;       ///< most packets in flight; fewer than the engine's after a timeout
    uint32_t oldest = 0;       ///< SQ index of the oldest WQE not completed
    uint32_t slot_stride = 0;  ///< bytes between slots
    uint16_t max_inline = 0;
    RetryBudget retries;
  } tx;

  // --- Line 3: responder.
  struct alignas(64) Responder {
    [[no_unique_address]] queues::RingConsumer rq;  // the next member stands in its padding
    Psn expected;
    uint32_t msn = 0;
    GrantedCredits granted;
    InboundMessage message;
    CqWriter* recv_cq = nullptr;

    /// C9-148: the MSN counts a message when it is executed. For a READ, too, that is before its response is sent.
    uint32_t count_message() { return msn = (msn + 1) & Psn::kMask; }
  } rx;

  /// A request took `packets` PSNs.
  void expect_next(uint32_t packets) {
    rx.expected += packets;
    responses.close_gap();
  }
  void end_selective() {
    selective = false;
    seal = {};
  }
  uint32_t mtu() const { return 1u << mtu_shift; }
  /// Of a message or READ response of `length` bytes. An empty one takes a packet, too.
  uint32_t packets_of(uint64_t length) const {
    return length == 0 ? 1 : static_cast<uint32_t>((length + mtu() - 1) >> mtu_shift);
  }
  SendSlot& slot(uint32_t index) const {
    return *reinterpret_cast<SendSlot*>(reinterpret_cast<std::byte*>(tx.slots) +
                                        std::size_t{index & (tx.sq.entries() - 1)} * tx.slot_stride);
  }
};

static_assert(sizeof(Qp) <= 4 * 64, "a QP's hot state is at most four cache lines");
static_assert(offsetof(Qp::Requester, slots) == 64);

struct QpDeleter {
  void operator()(Qp* qp) const {
    delete qp->cold;
    delete qp;
  }
};
using QpPtr = std::unique_ptr<Qp, QpDeleter>;
/// Makes a QP in RESET, with all the memory that it needs until the next modify. Errors: ENOMEM.
Result<QpPtr> make_qp(const QpSpec& spec);
/// Moves the QP to RESET: forgets everything except identity, memory and list membership. Engine's thread.
void reset_qp(Qp& qp);

}  // namespace uroce::transport
