// The inside of IbCm, for the files that implement it: a connection's record and the tables.
#pragma once

#include <array>
#include <list>
#include <memory>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/secret.h"
#include "base/timer_wheel.h"
#include "cm/ib_cm.h"
#include "cm/ib_cm_state.h"
#include "cm/ib_cm_timeouts.h"
#include "cm/mad.h"

namespace uroce::cm {

struct Listener {
  uint64_t token = 0;
  std::shared_ptr<Backlog> backlog;
};

/// A number chosen by a peer: a communication id, a queue pair number or a SIDR request id. It is looked up together
/// with the peer's GID. 12.9.8.3.1 uses the CA GUID instead, but a host can write another host's GUID into a REQ, and
/// could so end that host's connections.
struct PeerKey {
  enum class Space : uint8_t { comm_id, qpn, sidr } space{};
  uint32_t number = 0;
  Gid gid{};
  friend bool operator==(const PeerKey&, const PeerKey&) = default;
};

/// Seeded, so that peers, who choose the numbers, cannot put them all into one bucket.
struct PeerKeyHash {
  uint64_t seed = 0;
  std::size_t operator()(const PeerKey& key) const;
};

struct CmRecord : IbCm::Connection {
  uint32_t id = 0;
  CmState state{};
  bool owned = true;  ///< destroy() was not called: events are reported
  bool mra_received = false;
  bool delivered = false;       ///< the application has received the event of the request or reply
  bool alternate_path = false;  ///< the peer's REQ has one
  uint8_t retries_left = 0;
  uint32_t remote_id = 0;  ///< 0: not known yet
  uint32_t local_qpn = 0;
  uint64_t transaction_id = 0;
  Nanos interval{0};                    ///< between repetitions of `last`
  std::optional<Mad> last{};            ///< our last message, to repeat on timeouts and for the peer's repetitions
  TimerNode timer{};                    ///< the next repetition, the end of time-wait, or the end of keeping `last`
  std::vector<PeerKey> keys{};          ///< its keys in `peers`
  std::shared_ptr<Backlog> waits_in{};  ///< while it is neither delivered nor answered
  Backlog::Place place{};               ///< there
  std::optional<std::list<CmRecord*>::iterator> spare{};

  const CmPath& path() const { return request.path; }
  bool ud() const { return request.type == QpType::ud; }
};

struct IbCm::Impl {
  Impl(const IbCmConfig& config_, IbCmHost& host_);

  // Calls, by file. raise_event() may free the record, so it must be the last call of a step.
  // ib_cm.cc
  CmRecord* record(uint32_t id);
  Result<CmRecord*> record_in(uint32_t id, std::string_view call, std::initializer_list<CmState> states);
  uint32_t fresh_id();
  CmRecord* add_record();
  void erase(CmRecord& r);
  void add_key(CmRecord& r, PeerKey::Space space, uint32_t number);
  CmRecord* find_peer(PeerKey::Space space, uint32_t number, const Gid& gid);
  void release_keys(CmRecord& r);
  void release_key(CmRecord& r, PeerKey::Space space);
  void stop_waiting(CmRecord& r);
  bool make_room(const Backlog& backlog, const Gid& peer);
  bool move_request(uint32_t id, const std::shared_ptr<Backlog>& backlog);
  std::shared_ptr<Listener> listener_of(uint64_t service_id);
  CmRecord* add_request(const std::shared_ptr<Listener>& listener, CmRequest request);
  CmRecord* known(uint32_t our_id, uint32_t their_id, const Gid& source);
  void count_unknown(const Gid& source);
  void send(const CmPath& path, const Mad& mad, Counter& counter);
  void send_again(const CmRecord& r);
  void raise_event(CmRecord& r, CmMessage message);

  // ib_cm_timers.cc
  Nanos round_trip(const CmRecord& r) const;
  void arm(CmRecord& r, Nanos deadline, Nanos now);
  void repeat_until_answered(CmRecord& r, uint8_t timeout, Nanos now);
  void enter_timewait(CmRecord& r, Nanos now);
  void close(CmRecord& r);
  void keep_answer(CmRecord& r, Nanos time, Nanos now);
  void on_timer(CmRecord& r, Nanos now);
  void give_up(CmRecord& r, Nanos now);

  // ib_cm_active.cc
  Result<uint32_t> connect(const CmRequest& request, Nanos now);
  Result<void> ready(uint32_t id, std::span<const std::byte> private_data, Nanos now);
  void on_rep(const Gid& source, const Gid& destination, const MadHeader& header, const RepMad& rep, Nanos now);
  void on_repeated_rep(CmRecord& r);

  // ib_cm_passive.cc
  Result<void> accept(uint32_t id, const CmReply& reply, Nanos now);
  Result<void> notify_established(uint32_t id, Nanos now);
  Result<void> mra(uint32_t id, uint8_t timeout, std::span<const std::byte> private_data, Nanos now);
  void delivered(uint32_t id);
  void ask_for_time(CmRecord& r);
  void on_req(const Gid& source, const Gid& destination, const MadHeader& header, const ReqMad& req, Nanos now);
  void on_repeated_req(CmRecord& r, const MadHeader& header);
  void on_rtu(const Gid& source, const RtuMad& rtu);
  void on_mra(const Gid& source, const MraMad& mra, Nanos now);

  // ib_cm_close.cc
  Result<void> reject(uint32_t id, RejReason reason, std::span<const std::byte> info,
                      std::span<const std::byte> private_data, Nanos now);
  Result<void> disconnect(uint32_t id, std::span<const std::byte> private_data, Nanos now);
  void destroy(uint32_t id, Nanos now);
  void send_rej(CmRecord& r, RejReason reason, std::span<const std::byte> info,
                std::span<const std::byte> private_data);
  void send_timeout_rej(CmRecord& r);
  void refuse(const CmPath& path, const MadHeader& header, const RejMad& rej);
  void send_dreq(CmRecord& r, std::span<const std::byte> private_data, Nanos now);
  void end_stale(CmRecord& r, Nanos now);
  void on_rej(const Gid& source, const RejMad& rej, Nanos now);
  CmRecord* rejected_by(const Gid& source, const RejMad& rej);
  void on_dreq(const Gid& source, const Gid& destination, const MadHeader& header, const DreqMad& dreq, Nanos now);
  void on_drep(const Gid& source, const DrepMad& drep, Nanos now);

  // ib_cm_sidr.cc
  void connect_sidr(CmRecord& r, Nanos now);
  void answer_sidr(CmRecord& r, const CmReply& reply, std::span<const std::byte> info, Nanos now);
  void on_sidr_req(const Gid& source, const Gid& destination, const MadHeader& header, const SidrReqMad& req);
  void on_sidr_rep(const Gid& source, const SidrRepMad& rep);

  const IbCmConfig config;
  IbCmHost& host;
  IbCmCounters counters;
  SecretStream transaction_ids;
  SecretPermutation permute_id;
  uint32_t ids_given = 0;
  TimerWheel timers;
  bool polling = false;  ///< inside poll()
  Nanos mad_at{0};       ///< when the latest MAD arrived
  GuessTable guesses;
  std::unordered_map<uint32_t, CmRecord> records;
  std::unordered_map<PeerKey, CmRecord*, PeerKeyHash> peers;
  /// Masks, the most specific first, each with its services that have a listener.
  std::vector<std::pair<uint64_t, std::unordered_map<uint64_t, std::shared_ptr<Listener>>>> listeners;
  /// Records kept only for their answer, the oldest first. They are reused when the table is full.
  std::list<CmRecord*> spare;
};

inline std::vector<std::byte> copy_of(std::span<const std::byte> bytes) { return {bytes.begin(), bytes.end()}; }

/// EINVAL when `data` does not fit into `message`.
Result<void> check_private(std::span<const std::byte> data, std::size_t most, std::string_view message);

}  // namespace uroce::cm
