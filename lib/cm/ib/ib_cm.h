// The InfiniBand connection manager of one device (IBTA vol. 1, 12): listeners, and the state of each connection. It
// talks to the peer's connection manager in MADs between the queue pairs 1 of two hosts. README.md has the states.
//
// A plain state machine: MADs and time are arguments, and each call returns its actions, which its caller carries out.
// It calls nobody. Not thread-safe. A peer's MAD can change the state of that peer's own connections only. A MAD that
// fits no connection is counted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <uroce/error.h>
#include <uroce/types.h>

#include "base/guess_table.h"
#include "base/time.h"
#include "cm/ib/actions.h"
#include "cm/ib/connection_table.h"
#include "cm/ib/context.h"
#include "cm/ib/mad.h"
#include "cm/ib/outcome.h"
#include "cm/ib/snapshot.h"

namespace uroce::cm {

class IbCm {
 public:
  explicit IbCm(const IbCmConfig& config) : ctx_(config), table_(config) {}
  IbCm(const IbCm&) = delete;
  IbCm& operator=(const IbCm&) = delete;

  /// REQs and SIDR_REQs for the service become arrivals with `token`, a number of the caller's. At most `backlog`
  /// requests of a listener wait, unless admit() names another backlog. A request stops waiting with delivered(),
  /// accept(), reject(), destroy(), or the peer's own REJ. Errors: EADDRINUSE (the service has a listener).
  Result<void> listen(uint64_t service_id, uint32_t backlog, uint64_t token);
  /// Requests that wait for an answer remain: destroy() or reject() them.
  void stop_listening(uint64_t service_id) { listeners_.erase(service_id); }
  /// Until then, requests for a service without a listener get no answer: a restart has held up the program that is
  /// about to listen, and the peer repeats its request.
  void await_listeners(Nanos until) { listeners_awaited_until_ = until; }

  struct Started {
    uint32_t id = 0;
    CmActions actions{};
  };
  /// Sends a REQ, or with UD a SIDR_REQ, and returns the new connection's id. Errors: EINVAL (private data too long,
  /// values out of range), ENOMEM (max_connections).
  Result<Started> connect(const CmRequest& request, Nanos now);
  /// The arrival becomes a connection with the event `request`, and waits in `backlog`; nullptr for the listener's own.
  /// Where there is no room, it is counted, and as if it had been lost.
  CmActions admit(CmArrival arrival, std::shared_ptr<Backlog> backlog = nullptr);
  /// Passive: sends the REP, or with UD a SIDR_REP. Errors of this and the calls below: EINVAL (private data too long,
  /// no such connection, or a state that does not allow the call; the text says which). The connection does not change
  /// then.
  Result<CmActions> accept(uint32_t id, const CmReply& reply, Nanos now);
  /// Active, after a reply: sends the RTU.
  Result<CmActions> ready(uint32_t id, std::span<const std::byte> private_data, Nanos now);
  /// Passive, after the REP: packets of the peer arrived before its RTU (12.9.7.2; ib_cm_notify). Does nothing when the
  /// connection is established already.
  Result<CmActions> notify_established(uint32_t id, Nanos now);
  /// Passive, after a request, or active, after a reply: sends a REJ. With UD it sends a SIDR_REP with status 2.
  Result<CmActions> reject(uint32_t id, RejReason reason, std::span<const std::byte> info,
                           std::span<const std::byte> private_data, Nanos now);
  /// After a REP was sent or received, or established: sends a DREQ. The event `disconnected` follows, at the latest
  /// when no repetition of the DREQ was answered. Does nothing on a connection that has ended.
  Result<CmActions> disconnect(uint32_t id, std::span<const std::byte> private_data, Nanos now);
  /// Frees the id, in any state. A request or reply that waits for an answer is rejected, an established connection is
  /// disconnected. Repetitions and time-wait go on without events. Does nothing for an unknown id.
  CmActions destroy(uint32_t id, Nanos now);
  /// The application has received the event of a request or a reply. The request leaves its listener's backlog. When
  /// the peer repeats its message, it gets one MRA for 68.7 s more, as from Linux's rdma_cm. Does nothing for an
  /// unknown id, or one that waits for no answer.
  void delivered(uint32_t id);
  /// The request of the event `request`, which nobody has received, waits in `backlog` from now on. nullopt if that is
  /// full and has no room for it: the request is gone as if it had been lost, and so is its id.
  std::optional<CmActions> move_request(uint32_t id, const std::shared_ptr<Backlog>& backlog);
  /// Such a request is gone as if it had been lost: its peer cannot be answered.
  void drop_request(uint32_t id);

  /// A datagram to queue pair 1 with its addresses. `mad` is the payload after the DETH.
  CmActions on_mad(const Gid& source, const Gid& destination, std::span<const std::byte> mad, Nanos now);
  /// The next connection that is due sends a repetition, gives up, or ends its time-wait. nullopt: none is due. Once
  /// begun, call it until it returns that.
  std::optional<CmActions> poll(Nanos now);
  /// When poll() next has something to do; kNever for nothing.
  Nanos next_deadline() const { return table_.next_deadline(); }

  /// nullptr when the id is unknown. Valid until the next call.
  const CmConnection* find(uint32_t id) const;
  /// The number of connections, including time-wait, and of answers kept for a peer's repetitions. New connections
  /// replace kept answers when the table is full.
  std::size_t size() const { return table_.size(); }
  const IbCmCounters& counters() const { return ctx_.counters; }
  /// The peers that sent messages for connections that do not exist, at most GuessTable::kPeers addresses.
  std::vector<PeerGuesses> guesses(Nanos now) const { return guesses_.report(now); }

  // Another manager goes on with what this one has (ib_cm_snapshot.cc). Listeners and the places of requests in
  // backlogs are not part of it: the caller knows them.
  CommIdsSnapshot comm_ids() const { return table_.comm_ids(); }
  void adopt(const CommIdsSnapshot& ids) { table_.adopt(ids); }
  /// All connections. adopt() takes them in this order.
  std::vector<ConnectionSnapshot> snapshot(Nanos now) const;
  /// Errors: EPROTO (it makes no sense, or names what another connection has), ENOMEM (max_connections).
  Result<void> adopt(const ConnectionSnapshot& snapshot, Nanos now);
  /// The request waits in `backlog`, behind those that do. False where it cannot: it is answered, waits already, or the
  /// backlog is full.
  bool wait(uint32_t id, const std::shared_ptr<Backlog>& backlog);
  /// Adds to a counter what the manager before has counted.
  void count_before(Counter IbCmCounters::* which, uint64_t count) { (ctx_.counters.*which).add(count); }
  void adopt(const PeerGuesses& guesses, Nanos now) { guesses_.adopt(guesses, now); }

 private:
  struct Listener {
    uint64_t token = 0;
    std::shared_ptr<Backlog> backlog;
  };
  /// A received MAD, but for its body.
  struct Incoming {
    Gid source, destination;
    MadHeader header;
    Nanos now;
    /// The way of an answer.
    CmPath back() const { return {.sgid = destination, .dgid = source}; }
    PeerKey key(PeerKey::Space space, uint32_t number) const { return {space, number, source}; }
  };

  /// The one place that acts on outcomes.
  void apply(CmRecord& r, CmOutcome out, Nanos now);
  /// A call of the connection's owner: `step` decides.
  template <class Step>
  Result<CmActions> call(uint32_t id, std::string_view name, Nanos now, Step step);
  const Listener* listener_of(uint64_t service_id) const;
  /// Counts a request without a listener. False: it gets no answer.
  bool refuses_service(const Incoming& in);
  bool make_room(const Backlog& backlog, const Gid& peer, CmActions& actions);

  // Messages, by kind (ib_cm_messages.cc). The connection that a message is for decides.
  void dispatch(const Incoming& in, const std::byte* body, CmActions& actions);
  void on_req(const Incoming& in, const ReqMad& req, CmActions& actions);
  void on_mra(const Incoming& in, const MraMad& mra);
  void on_rej(const Incoming& in, const RejMad& rej, CmActions& actions);
  void on_rep(const Incoming& in, const RepMad& rep, CmActions& actions);
  void on_rtu(const Incoming& in, const RtuMad& rtu, CmActions& actions);
  void on_dreq(const Incoming& in, const DreqMad& dreq, CmActions& actions);
  void on_drep(const Incoming& in, const DrepMad& drep, CmActions& actions);
  void on_sidr_req(const Incoming& in, const SidrReqMad& req, CmActions& actions);
  void on_sidr_rep(const Incoming& in, const SidrRepMad& rep, CmActions& actions);
  /// The connection between our id and the peer's. nullptr: there is none, and that is counted.
  CmRecord* known(const Incoming& in, uint32_t our_id, uint32_t their_id);
  /// Counts that the sender named a connection that does not exist.
  void count_unknown(const Incoming& in);
  /// Rejects a message that belongs to no connection.
  void refuse(const Incoming& in, const RejMad& rej, CmActions& actions);

  CmContext ctx_;
  GuessTable guesses_;
  ConnectionTable table_;
  std::unordered_map<uint64_t, Listener> listeners_;  // by service id
  Nanos listeners_awaited_until_{0};
};

}  // namespace uroce::cm
