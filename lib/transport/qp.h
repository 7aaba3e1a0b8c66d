// A queue pair's state, grouped by who uses it. All of it belongs to one engine's thread.
//
// Qp is the hot part: what a packet in steady flow touches, at most four cache lines. QpCold holds the rest.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include <uroce/error.h>

#include "base/psn.h"
#include "base/time.h"
#include "transport/congestion.h"
#include "transport/pacing.h"
#include "transport/qp_spec.h"
#include "transport/recovery.h"
#include "transport/timer_wheel.h"
#include "wire/packet.h"

namespace uroce::transport {

/// One send work request, copied out of shared memory and validated; its entries or inline bytes follow it.
struct SendSlot {
  uint64_t wr_id = 0;
  uint64_t remote_addr = 0;
  uint64_t compare_add = 0;
  uint64_t swap = 0;
  uint32_t rkey = 0;
  uint32_t imm_or_key = 0;
  uint32_t length = 0;   ///< bytes of the message
  uint32_t packets = 0;  ///< PSNs it takes; READ: response packets; local operations: none
  Psn first_psn{};
  uint32_t ssn = 0;  ///< send sequence number (IBTA vol. 1, 9.7.7.2)
  WrOpcode opcode{};
  uint8_t flags = 0;  ///< low bits of SendFlags
  uint8_t num_sge = 0;
  WcStatus status = WcStatus::success;  ///< found wrong when fetched: completes so when its turn comes
  uint16_t inline_length = 0;
  bool started = false;      ///< has PSNs
  bool asked_again = false;  ///< READ: asked for in more than one request

  bool has(SendFlag flag) const { return (flags & static_cast<uint32_t>(flag)) != 0; }
  bool is_read() const { return opcode == WrOpcode::rdma_read; }
  bool is_atomic() const { return opcode == WrOpcode::compare_swap || opcode == WrOpcode::fetch_add; }
  bool is_read_or_atomic() const { return is_read() || is_atomic(); }
  /// Done by the engine alone: no packets, no PSNs.
  bool is_local() const { return opcode == WrOpcode::bind_mw || opcode == WrOpcode::local_invalidate; }
  bool is_write() const { return opcode == WrOpcode::rdma_write || opcode == WrOpcode::rdma_write_with_imm; }
  /// UD: where it goes. Stands where an atomic has its operands, as in queues::SendWqe.
  struct Destination {
    uint32_t ah;
    uint32_t qpn;
    uint32_t qkey;
    uint32_t reserved;
  };
  Destination destination() const { return std::bit_cast<Destination>(std::array{compare_add, swap}); }
  /// bind_mw: what the window becomes. Stands there too.
  struct Bind {
    uint64_t length;
    uint32_t access;
    uint32_t reserved;
  };
  Bind bind() const { return std::bit_cast<Bind>(std::array{compare_add, swap}); }
  bool takes_recv() const {
    return opcode == WrOpcode::send || opcode == WrOpcode::send_with_imm || opcode == WrOpcode::send_with_invalidate ||
           opcode == WrOpcode::rdma_write_with_imm;
  }
  Psn end_psn() const { return first_psn + packets; }  ///< one past its last PSN
  Sge* sges() { return reinterpret_cast<Sge*>(this + 1); }
  const Sge* sges() const { return reinterpret_cast<const Sge*>(this + 1); }
  std::byte* inline_data() { return reinterpret_cast<std::byte*>(this + 1); }
};
static_assert(sizeof(SendSlot) == 64);

/// A READ or atomic that this side answered or is answering, kept for duplicates (IBTA vol. 1, 9.7.5.1.2).
struct Resource {
  Psn first_psn{};
  uint32_t packets = 0;
  uint64_t va = 0;
  uint32_t rkey = 0;
  uint32_t length = 0;
  uint64_t atomic_result = 0;
  uint32_t msn = 0;
  bool atomic = false;
  bool busy = false;  ///< its first answer is still to be sent in full
};

/// An answer waiting its turn: a READ response stream or an atomic ACK.
struct ResponseJob {
  static constexpr uint32_t kVoid = UINT32_MAX;
  uint32_t resource = 0;  ///< index into QpCold::resources, or kVoid: given up
  uint32_t next = 0;      ///< next response packet, counted from the resource's first
  uint32_t end = 0;       ///< one past the last
  bool at_start = true;   ///< nothing sent yet: the next packet is a First or an Only
  bool original = true;   ///< not an answer to a duplicate
};

struct QpCold {
  QpSpec spec;
  QpAttr attr;  ///< as set; query() patches in what moves
  TimerNode timer;
  Srq* srq = nullptr;
  std::vector<std::byte> send_slots;  ///< ring of SendSlot, one per SQ entry
  uint32_t send_slot_stride = 0;
  uint64_t recv_wr_id = 0;          ///< of the receive in use
  std::vector<Sge> recv_sges;       ///< of the receive in use, copied
  std::vector<Resource> resources;  ///< a ring of max_dest_rd_atomic
  std::vector<ResponseJob> jobs;    ///< a ring, power of two
  uint32_t resource_next = 0;
  uint32_t jobs_head = 0;
  uint32_t jobs_tail = 0;
  std::shared_ptr<const wire::RouteTemplate> route;           ///< shared by the QPs towards one peer
  std::unique_ptr<Recovery> recovery;                         ///< RC, from RTR on
  CongestionAlgorithm algorithm = CongestionAlgorithm::none;  ///< in force
  std::unique_ptr<CongestionControl> congestion;              ///< RC, from RTR on; nullptr: none
  Pacing pacing;
  Notification notification;
  bool communication_established = false;
  bool sq_drained_reported = false;
};

/// Frames that belong to no request and no response; bits of Requester::notices.
struct Notice {
  static constexpr uint8_t kHello = 1;
  static constexpr uint8_t kCnp = 2;
};

/// What kind of message the responder is in the middle of.
enum class Recv : uint8_t { none, send, write };

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
  uint8_t rnr_retry = 0;
  uint8_t min_rnr_timer = 0;
  AccessFlags access{};
  bool loopback : 1 = false;
  bool signal_all : 1 = false;
  bool paced : 1 = false;  ///< cold->congestion has a rate
  uint8_t ecn = 0;         ///< of data packets, 2 bits; 0: as in the route
  bool on_active_list = false;
  bool timer_pending = false;  ///< the wheel holds cold->timer
  CqWriter* send_cq = nullptr;
  CqWriter* recv_cq = nullptr;
  QpCold* cold = nullptr;
  const wire::RouteTemplate* route = nullptr;

  // --- Lines 1 and 2: requester and completer.
  struct alignas(64) Requester {
    queues::RingConsumer sq;  ///< next() is the first WQE not yet fetched
    SendSlot* slots = nullptr;
    uint32_t slot_stride = 0;    ///< bytes between slots
    uint32_t oldest = 0;         ///< SQ index of the oldest WQE not completed
    uint32_t cursor = 0;         ///< SQ index of the WQE being sent
    uint32_t cursor_packet = 0;  ///< its next packet
    Psn una;                     ///< oldest unacknowledged PSN
    Psn acked;                   ///< one past the newest PSN that the peer has executed; answers may be missing
    Psn next;                    ///< PSN of the next new WQE
    Psn sent;                    ///< one past the newest PSN ever sent
    uint32_t window = 0;         ///< most packets out; fewer than the engine's after a timeout
    uint32_t ssn = 0;            ///< of the newest message started
    uint32_t limit_ssn = 0;      ///< newest message that credits allow (LSN)
    uint8_t rd_atomic = 0;       ///< READs and atomics outstanding
    uint8_t retries_left = 0;
    uint8_t rnr_retries_left = 0;
    bool credit_limited = false;
    bool rnr_waiting = false;
    bool selective = false;  ///< the peer keeps what arrives out of order, and so do we
    bool has_lost = false;   ///< recovery->lost is not empty
    uint8_t max_sge = 1;
    uint16_t max_inline = 0;
    uint8_t since_ack_request = 0;  ///< packets since the last that asked for an ACK
    uint8_t notices = 0;            ///< frames of their own that are due, by Notice
    Nanos deadline = kNever;        ///< ACK timeout or end of the RNR wait
    Nanos wheel_deadline = kNever;  ///< when the wheel looks, with timer_pending
    Qp* next_active = nullptr;
    queues::DoorbellFlag* doorbell = nullptr;
    Recovery* recovery = nullptr;  ///< cold->recovery
  } tx;

  // --- Line 3: responder.
  struct alignas(64) Responder {
    queues::RingConsumer rq;
    Psn expected;
    uint32_t msn = 0;
    uint64_t write_va = 0;    ///< WRITE in progress: where the next payload goes
    uint32_t write_left = 0;  ///< WRITE in progress: bytes still to come
    uint32_t received = 0;    ///< SEND in progress: bytes placed; WRITE: bytes of the message
    uint32_t rkey = 0;
    Psn reply_psn;
    uint8_t reply_syndrome = 0;
    bool reply_pending = false;
    bool nak_sent = false;  ///< a sequence or RNR NAK covers the gap until `expected` arrives
    Recv message = Recv::none;
    bool recv_held = false;  ///< a receive WQE has been taken for the message in progress
    bool has_jobs = false;   ///< responses wait in QpCold::jobs
    bool has_parked = false;
    uint8_t recv_num_sge = 0;
  } rx;

  uint32_t mtu() const { return 1u << mtu_shift; }
  SendSlot& slot(uint32_t index) const {
    return *reinterpret_cast<SendSlot*>(reinterpret_cast<std::byte*>(tx.slots) +
                                        std::size_t{index & (tx.sq.entries() - 1)} * tx.slot_stride);
  }
};

static_assert(sizeof(Qp) <= 4 * 64, "a QP's hot state is at most four cache lines");

/// A QP in RESET with all the memory that it will need until the next modify. Errors: ENOMEM.
struct QpDeleter {
  void operator()(Qp* qp) const {
    delete qp->cold;
    delete qp;
  }
};
using QpPtr = std::unique_ptr<Qp, QpDeleter>;
Result<QpPtr> make_qp(const QpSpec& spec);
/// Back to RESET: everything but identity, memory and list membership is forgotten. Engine's thread.
void reset_qp(Qp& qp);

}  // namespace uroce::transport
