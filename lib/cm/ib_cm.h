// The InfiniBand connection manager of one device (IBTA vol. 1, 12): who listens, and what each connection has said and
// heard, as MADs between the queue pairs 1 of two hosts.
//
// A plain state machine: MADs and time come in as arguments, MADs go out and events are told through IbCmHost. Not
// thread-safe. What a peer sends can change the state of its own connections only, and is counted where it fits none.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <uroce/error.h>
#include <uroce/types.h>

#include "base/counter.h"
#include "base/time.h"
#include "cm/mad.h"
#include "message/cm_reject_reasons.h"

namespace uroce::cm {

using message::RejReason;

/// Where a connection's MADs and packets go. `ack_timeout` and `mtu` are what a REQ carries of it.
struct CmPath {
  Gid sgid{};  ///< ours
  Gid dgid{};  ///< the peer's
  uint8_t traffic_class = 0;
  uint8_t hop_limit = 64;
  uint32_t flow_label = 0;  ///< 20 bits
  Mtu mtu = Mtu::mtu1024;
  uint8_t ack_timeout = 18;  ///< 5 bits, 4.096 us * 2^n: the local ACK timeout that the peer's QP shall use
};

/// What a REQ says (12.6.5), in its sender's words: the receiver's responder resources answer to its `initiator_depth`,
/// and the other way round. With `type` ud, what a SIDR_REQ says: service, P_Key and private data alone.
struct CmRequest {
  uint64_t service_id = 0;
  QpType type = QpType::rc;
  CmPath path{};
  uint32_t qpn = 0;  ///< of who sends it
  uint32_t psn = 0;  ///< with which its receiver begins to send
  uint8_t responder_resources = 0;
  uint8_t initiator_depth = 0;
  uint8_t retry_count = 7;
  uint8_t rnr_retry_count = 7;
  uint8_t max_cm_retries = 15;     ///< 4 bits
  uint8_t remote_cm_timeout = 20;  ///< 5 bits: within which the peer shall answer
  uint8_t local_cm_timeout = 20;   ///< 5 bits: within which we answer
  bool flow_control = true;        ///< end-to-end credits
  bool srq = false;
  uint16_t pkey = 0xffff;
  uint32_t ece_vendor = 0;                ///< 24 bits; enhanced connection establishment, 0 for none
  uint32_t ece_options = 0;               ///< of that vendor
  std::vector<std::byte> private_data{};  ///< at most kReqPrivate or kSidrReqPrivate; as received, all of it
};

/// What a REP says (12.6.8); with UD, what a SIDR_REP says: status, qpn, qkey and private data alone.
struct CmReply {
  uint32_t qpn = 0;
  uint32_t psn = 0;
  uint32_t qkey = 0;
  uint8_t responder_resources = 0;
  uint8_t initiator_depth = 0;
  uint8_t rnr_retry_count = 7;
  uint8_t ack_delay = 15;  ///< target ACK delay, 5 bits
  bool flow_control = true;
  bool srq = false;
  uint8_t sidr_status = 0;  ///< SIDR_REP (12.11.2): 0 valid, 1 service id not supported, 2 rejected, 3 no QP
  uint32_t ece_vendor = 0;  ///< as in CmRequest
  uint32_t ece_options = 0;
  std::vector<std::byte> private_data{};
};

enum class CmEventKind : uint8_t {
  request,       ///< passive: a REQ or SIDR_REQ for a listener made `id`; answer with accept(), reject() or mra()
  reply,         ///< active: a REP; answer with ready() or reject()
  established,   ///< passive: the RTU, or packets of the peer (notify_established()); active UD: a good SIDR_REP
  rejected,      ///< a REJ in any state but disconnecting, or a SIDR_REP with a status; also ours to a stale REP
  disconnected,  ///< a DREQ came (answered with a DREP already), or a DREP to ours, or nobody answered ours
  unreachable,   ///< active: nobody answered the REQ or SIDR_REQ; passive: nobody answered the REP
  /// The queue pair's number may be used again. After `disconnected`; after `rejected` and `unreachable` where the peer
  /// may have used the connection (it was replied to), or called the queue pair stale. Otherwise, and with UD, nothing
  /// needs to rest, and this does not come.
  timewait_exit,
};

struct CmMessage {
  CmEventKind kind{};
  uint32_t id = 0;
  uint64_t listener = 0;                  ///< `request`: the token given to listen()
  CmRequest request{};                    ///< `request`; its path is seen from here: sgid is ours
  CmReply reply{};                        ///< `reply`, and `established` or `rejected` of UD
  uint16_t reason = 0;                    ///< `rejected`: RejReason, or the SIDR status
  std::vector<std::byte> info{};          ///< `rejected`: additional reject information
  std::vector<std::byte> private_data{};  ///< `established`, `rejected`, `disconnected`
};

/// What the connection manager asks of who runs it.
class IbCmHost {
 public:
  virtual ~IbCmHost() = default;
  /// To queue pair 1 at `path.dgid`, from `path.sgid`. A MAD that cannot go is as one lost. Must not call IbCm back.
  virtual void send(const CmPath& path, const Mad& mad) = 0;
  /// During a call of IbCm; it may call IbCm back, all but poll() and on_mad(), and not destroy it. Each id is told at
  /// most one of rejected, disconnected and unreachable, and nothing once destroy() was called.
  virtual void on_event(const CmMessage& message) = 0;
};

struct IbCmCounters {
  // by message, sent and received (first ones), retransmissions, duplicates received …
  Counter req_sent, req_received, mra_sent, mra_received, rej_sent, rej_received, rep_sent, rep_received, rtu_sent,
      rtu_received, dreq_sent, dreq_received, drep_sent, drep_received, sidr_req_sent, sidr_req_received, sidr_rep_sent,
      sidr_rep_received;
  Counter resent;        ///< our messages, sent again
  Counter duplicates;    ///< theirs, received again
  Counter malformed;     ///< no CM MAD: class, version, method, fields out of range
  Counter unknown_id;    ///< for a connection that is not there
  Counter out_of_state;  ///< fits the connection, not its state
  Counter no_listener;   ///< REQs for a service nobody listens to
  Counter backlog_full;  ///< REQs beyond a listener's backlog; dropped, the peer asks again
  Counter stale;         ///< REQs and REPs of a queue pair that is still connected here
  Counter table_full;    ///< REQs beyond `max_connections`; dropped, the peer asks again
};

struct IbCmConfig {
  uint64_t ca_guid = 0;
  uint32_t max_connections = 65536;  ///< time-wait included
  uint64_t seed = 0;                 ///< for ids and transaction ids
};

class IbCm {
 public:
  IbCm(const IbCmConfig& config, IbCmHost& host);
  ~IbCm();
  IbCm(const IbCm&) = delete;
  IbCm& operator=(const IbCm&) = delete;

  /// REQs and SIDR_REQs whose service id equals `service_id` under `mask` become events that carry `token`, a number
  /// of the caller's. More specific masks come first. At most `backlog` requests of a listener wait, until delivered()
  /// or an answer: accept(), reject(), destroy(), or the peer's own REJ.
  /// Errors: EADDRINUSE (the same id and mask).
  Result<void> listen(uint64_t service_id, uint64_t mask, uint32_t backlog, uint64_t token);
  /// Requests that wait for an answer stay: destroy() or reject() them.
  void stop_listening(uint64_t service_id, uint64_t mask);

  /// A connection's id; sends the REQ, or with UD the SIDR_REQ. Errors: EINVAL (private data too long, values out of
  /// range), ENOMEM (max_connections).
  Result<uint32_t> connect(const CmRequest& request, Nanos now);
  /// Passive: sends the REP, or with UD a SIDR_REP. Errors of this and what follows: EINVAL (private data too long,
  /// no such connection, or not in a state for it; the text says which); the connection is then as it was.
  Result<void> accept(uint32_t id, const CmReply& reply, Nanos now);
  /// Active, after a reply: sends the RTU.
  Result<void> ready(uint32_t id, std::span<const std::byte> private_data, Nanos now);
  /// Passive, REP sent: packets of the peer arrived before its RTU (12.9.7.2; ib_cm_notify). Established already:
  /// nothing.
  Result<void> notify_established(uint32_t id, Nanos now);
  /// Passive, after a request, or active, after a reply; UD: SIDR_REP with status 2.
  Result<void> reject(uint32_t id, RejReason reason, std::span<const std::byte> info,
                      std::span<const std::byte> private_data, Nanos now);
  /// After a request (or a reply): asks the peer for 4.096 us * 2^timeout more before it gives up. A peer may grant
  /// that once; we do, and at most 137 s.
  Result<void> mra(uint32_t id, uint8_t timeout, std::span<const std::byte> private_data, Nanos now);
  /// The application knows of a request, or a reply, and takes its time: the request leaves its listener's backlog, and
  /// a peer that repeats itself is asked once for 68.7 s more, as Linux's rdma_cm does it. An id that is not there, or
  /// waits for no answer: nothing.
  void delivered(uint32_t id);
  /// Established, replied to, or accepted: sends a DREQ; `disconnected` follows, at the latest when all repetitions
  /// stayed without answer. On a connection that is over already: nothing.
  Result<void> disconnect(uint32_t id, std::span<const std::byte> private_data, Nanos now);
  /// Gives the id up in any state: what waits for an answer is rejected, an established connection is disconnected,
  /// and repetitions and time-wait pass without further events. An id that is not there: nothing.
  void destroy(uint32_t id, Nanos now);

  /// What a connection knows of its peer, for queue pair attributes (rdma_init_qp_attr(3)); nullptr when there is no
  /// such id. Valid until the next call.
  struct Connection {
    bool active = false;
    CmRequest request;  ///< ours or, passive, the peer's with the path seen from here
    CmReply reply;      ///< ours (passive, after accept()) or the peer's (active, after `reply`)
    uint32_t remote_qpn = 0;
    uint32_t remote_psn = 0;
  };
  const Connection* find(uint32_t id) const;
  /// Connections, time-waits, and answers that are kept for a peer's repetitions; the last give way to connections.
  std::size_t size() const;
  const IbCmCounters& counters() const;

  /// A datagram to queue pair 1: the payload behind the DETH, from and to these addresses.
  void on_mad(const Gid& source, const Gid& destination, std::span<const std::byte> mad, Nanos now);
  /// Resends, gives up, and ends time-waits that are due.
  void poll(Nanos now);
  /// When poll() next has something to do; kNever for nothing.
  Nanos next_deadline() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace uroce::cm
