// The InfiniBand connection manager of one device (IBTA vol. 1, 12): listeners, and the state of each connection. It
// talks to the peer's connection manager in MADs between the queue pairs 1 of two hosts. README.md has the states.
//
// A plain state machine: MADs and time are arguments, MADs and events go out through IbCmHost. Not thread-safe. A
// peer's MAD can change the state of that peer's own connections only. A MAD that fits no connection is counted.
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
#include "base/guess_table.h"
#include "base/secret.h"
#include "base/time.h"
#include "cm/backlog.h"
#include "cm/mad.h"
#include "message/cm_reject_reasons.h"

namespace uroce::cm {

using message::RejReason;

/// The path of a connection's MADs and packets. A REQ carries its `ack_timeout` and `mtu`.
struct CmPath {
  Gid sgid{};  ///< ours
  Gid dgid{};  ///< the peer's
  uint8_t traffic_class = 0;
  uint8_t hop_limit = 64;
  uint32_t flow_label = 0;  ///< 20 bits
  Mtu mtu = Mtu::mtu1024;
  uint8_t ack_timeout = 18;  ///< 5 bits, 4.096 us * 2^n: the local ACK timeout that the peer's QP shall use
};

/// The contents of a REQ (12.6.5), from its sender's point of view: its `initiator_depth` limits the receiver's
/// responder resources, and the other way round. With `type` ud, the contents of a SIDR_REQ: only service, P_Key and
/// private data. With `type` xrc_initiator, what the initiator of an extended reliable connection sends, and xrc_target
/// what the other side receives (annex A14): without responder resources, retry counts and `srq`.
struct CmRequest {
  uint64_t service_id = 0;
  QpType type = QpType::rc;
  CmPath path{};
  uint32_t qpn = 0;  ///< the sender's queue pair
  uint32_t psn = 0;  ///< the first PSN that the receiver of the REQ sends
  uint8_t responder_resources = 0;
  uint8_t initiator_depth = 0;
  uint8_t retry_count = 7;
  uint8_t rnr_retry_count = 7;
  uint8_t max_cm_retries = 15;     ///< 4 bits
  uint8_t remote_cm_timeout = 20;  ///< 5 bits: the receiver must answer within this time
  uint8_t local_cm_timeout = 20;   ///< 5 bits: the sender answers within this time
  bool flow_control = true;        ///< end-to-end credits
  bool srq = false;
  uint16_t pkey = 0xffff;
  uint32_t ece_vendor = 0;                ///< 24 bits; enhanced connection establishment, 0 for none
  uint32_t ece_options = 0;               ///< that vendor's options
  std::vector<std::byte> private_data{};  ///< at most kReqPrivate or kSidrReqPrivate bytes; received: the whole field
};

/// The contents of a REP (12.6.8). With UD, the contents of a SIDR_REP: only status, qpn, qkey and private data. To an
/// XRC initiator: without initiator depth and flow control, and `srq` is true.
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
  request,      ///< passive: a REQ or SIDR_REQ arrived and created `id`; answer with accept(), reject() or mra()
  reply,        ///< active: a REP arrived; answer with ready() or reject()
  established,  ///< passive: an RTU, or packets of the peer (notify_established()); active UD: SIDR_REP with status 0
  rejected,  ///< a REJ in any state but DREQ sent, or a SIDR_REP with another status; also when we reject a stale REP
  disconnected,  ///< a DREQ arrived (the DREP is sent already), or a DREP to our DREQ, or no answer to our DREQ
  unreachable,   ///< active: no answer to the REQ or SIDR_REQ; passive: no answer to the REP
  /// Time-wait is over: the queue pair's number may be used again. Comes after `disconnected`, after `unreachable` on
  /// the passive side, and after `rejected` if the REJ came after a REP from the peer or in an established connection,
  /// or has the reason stale_connection. In other cases, and with UD, there is no time-wait and no such event.
  timewait_exit,
  /// Passive: a request that nobody had received made room for another one (backlog.h). Its id is gone. The peer
  /// repeats it as if it had been lost.
  withdrawn,
};

struct CmMessage {
  CmEventKind kind{};
  uint32_t id = 0;
  uint64_t listener = 0;                  ///< `request`: the token given to listen()
  CmRequest request{};                    ///< `request`; in its path, sgid is ours
  CmReply reply{};                        ///< `reply`; with UD also `established` and `rejected`
  uint16_t reason = 0;                    ///< `rejected`: RejReason, or the SIDR status
  std::vector<std::byte> info{};          ///< `rejected`: additional reject information
  std::vector<std::byte> private_data{};  ///< `established`, `rejected`, `disconnected`
};

/// The connection manager's output, and what its owner decides. The owner implements it.
class IbCmHost {
 public:
  virtual ~IbCmHost() = default;
  /// Sends a MAD to queue pair 1 at `path.dgid`, from `path.sgid`. A MAD that cannot be sent counts as lost. Must not
  /// call IbCm.
  virtual void send(const CmPath& path, const Mad& mad) = 0;
  /// Called during a call of IbCm. It may call any method of IbCm except poll() and on_mad(), and must not delete IbCm.
  /// Each id gets at most one of the events rejected, disconnected and unreachable, and none after destroy().
  virtual void on_event(const CmMessage& message) = 0;
  /// The backlog that a request to listener `token` waits in; nullptr for the listener's own. Several listeners of the
  /// caller's may stand behind one token. Must not call IbCm.
  virtual std::shared_ptr<Backlog> backlog_of(uint64_t token, const CmRequest& request);
};

struct IbCmCounters {
  // Messages sent and received, without retransmissions and duplicates.
  Counter req_sent, req_received, mra_sent, mra_received, rej_sent, rej_received, rep_sent, rep_received, rtu_sent,
      rtu_received, dreq_sent, dreq_received, drep_sent, drep_received, sidr_req_sent, sidr_req_received, sidr_rep_sent,
      sidr_rep_received;
  Counter resent;        ///< messages retransmitted
  Counter duplicates;    ///< messages received again
  Counter malformed;     ///< not a CM MAD: wrong class, version or method, or fields out of range
  Counter unknown_id;    ///< messages for a connection that does not exist
  Counter out_of_state;  ///< messages that the connection's state does not allow
  Counter no_listener;   ///< REQs for a service without a listener
  Counter backlog_full;  ///< REQs beyond a listener's backlog; dropped, the peer repeats them
  Counter withdrawn;     ///< REQs that made room for another one; the peer repeats them
  Counter stale;         ///< REQs and REPs of a queue pair that is still connected here
  Counter table_full;    ///< REQs beyond `max_connections`; dropped, the peer repeats them
};

struct IbCmConfig {
  uint64_t ca_guid = 0;
  uint32_t max_connections = 65536;  ///< including those in time-wait
  Secret seed = 0;                   ///< for ids and transaction ids
};

class IbCm {
 public:
  IbCm(const IbCmConfig& config, IbCmHost& host);
  ~IbCm();
  IbCm(const IbCm&) = delete;
  IbCm& operator=(const IbCm&) = delete;

  /// REQs and SIDR_REQs whose service id equals `service_id` under `mask` become events with `token`, a number of the
  /// caller's. The most specific mask that matches wins. At most `backlog` requests of a listener wait, or as many as
  /// IbCmHost::backlog_of() says. A request stops waiting with delivered(), accept(), reject(), destroy(), or the
  /// peer's own REJ. Errors: EADDRINUSE (the same id and mask).
  Result<void> listen(uint64_t service_id, uint64_t mask, uint32_t backlog, uint64_t token);
  /// Requests that wait for an answer remain: destroy() or reject() them.
  void stop_listening(uint64_t service_id, uint64_t mask);

  /// Sends a REQ, or with UD a SIDR_REQ, and returns the new connection's id. Errors: EINVAL (private data too long,
  /// values out of range), ENOMEM (max_connections).
  Result<uint32_t> connect(const CmRequest& request, Nanos now);
  /// Passive: sends the REP, or with UD a SIDR_REP. Errors of this and the calls below: EINVAL (private data too long,
  /// no such connection, or a state that does not allow the call; the text says which). The connection does not change
  /// then.
  Result<void> accept(uint32_t id, const CmReply& reply, Nanos now);
  /// Active, after a reply: sends the RTU.
  Result<void> ready(uint32_t id, std::span<const std::byte> private_data, Nanos now);
  /// Passive, after the REP: packets of the peer arrived before its RTU (12.9.7.2; ib_cm_notify). Does nothing when the
  /// connection is established already.
  Result<void> notify_established(uint32_t id, Nanos now);
  /// Passive, after a request, or active, after a reply: sends a REJ. With UD it sends a SIDR_REP with status 2.
  Result<void> reject(uint32_t id, RejReason reason, std::span<const std::byte> info,
                      std::span<const std::byte> private_data, Nanos now);
  /// After a request or a reply: sends an MRA, which asks the peer to wait 4.096 us * 2^timeout longer. A peer may
  /// grant that once. We grant it once, at most 137 s.
  Result<void> mra(uint32_t id, uint8_t timeout, std::span<const std::byte> private_data, Nanos now);
  /// The application has received the event of a request or a reply. The request leaves its listener's backlog. When
  /// the peer repeats its message, it gets one MRA for 68.7 s more, as from Linux's rdma_cm. Does nothing for an
  /// unknown id, or one that waits for no answer.
  void delivered(uint32_t id);
  /// The request of the event `request`, which nobody has received, waits in `backlog` from now on. False if that is
  /// full and has no room for it: the request is gone as if it had been lost, and so is its id.
  bool move_request(uint32_t id, const std::shared_ptr<Backlog>& backlog);
  /// Such a request is gone as if it had been lost: its peer cannot be answered.
  void drop_request(uint32_t id);
  /// After a REP was sent or received, or established: sends a DREQ. The event `disconnected` follows, at the latest
  /// when no repetition of the DREQ was answered. Does nothing on a connection that has ended.
  Result<void> disconnect(uint32_t id, std::span<const std::byte> private_data, Nanos now);
  /// Frees the id, in any state. A request or reply that waits for an answer is rejected, an established connection is
  /// disconnected. Repetitions and time-wait go on without events. Does nothing for an unknown id.
  void destroy(uint32_t id, Nanos now);

  /// The data for queue pair attributes (rdma_init_qp_attr(3)).
  struct Connection {
    bool active = false;
    CmRequest request;  ///< active: ours; passive: the peer's, with our address as its path's sgid
    CmReply reply;      ///< ours (passive, after accept()) or the peer's (active, after `reply`)
    uint32_t remote_qpn = 0;
    uint32_t remote_psn = 0;
  };
  /// nullptr when the id is unknown. Valid until the next call.
  const Connection* find(uint32_t id) const;
  /// The number of connections, including time-wait, and of answers kept for a peer's repetitions. New connections
  /// replace kept answers when the table is full.
  std::size_t size() const;
  const IbCmCounters& counters() const;
  /// The peers that sent messages for connections that do not exist, at most GuessTable::kPeers addresses.
  std::vector<PeerGuesses> guesses(Nanos now) const;

  /// A datagram to queue pair 1 with its addresses. `mad` is the payload after the DETH.
  void on_mad(const Gid& source, const Gid& destination, std::span<const std::byte> mad, Nanos now);
  /// Sends repetitions, reports timeouts, and ends time-waits that are due.
  void poll(Nanos now);
  /// When poll() next has something to do; kNever for nothing.
  Nanos next_deadline() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace uroce::cm
