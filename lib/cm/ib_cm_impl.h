// What the files of IbCm share: a connection's record, the tables it stands in, and the steps that several of them
// take.
#pragma once

#include <array>
#include <list>
#include <memory>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/random.h"
#include "cm/ib_cm.h"
#include "cm/mad.h"
#include "base/timer_wheel.h"

namespace uroce::cm {

/// A peer's word must not hold a record for hours: codes beyond these count as these.
inline constexpr uint8_t kMaxPeerTimeout = 21;  ///< 8.6 s; rdma_cm says 20
inline constexpr uint8_t kMaxMraTimeout = 25;   ///< 137 s; rdma_cm says 24
/// What an application that takes its time is given, as Linux's rdma_cm has it: 68.7 s.
inline constexpr uint8_t kMraTimeout = 24;
/// For paths that name no ACK timeout (0 is "none").
inline constexpr uint8_t kUsualAckTimeout = 18;
/// How long a SIDR_REP is kept for repeated requests, which do not say how often they repeat; rdma_cm: every 4.3 s.
inline constexpr uint8_t kSidrLinger = 21;

/// A timeout as the wire has it: 4.096 us * 2^code (IBTA vol. 1, 12.7.11).
constexpr Nanos cm_time(uint8_t code) { return Nanos(int64_t{4096} << code); }

enum class CmState : uint8_t {
  req_sent,
  rep_received,
  req_received,
  rep_sent,
  established,
  dreq_sent,
  timewait,
  sidr_sent,
  sidr_received,
  closed,  ///< nothing more comes of it; while its answer is kept, the peer's repetitions get that again
};
std::string_view name(CmState state);

struct Listener {
  uint64_t token = 0;
  uint32_t backlog = 0;
  uint32_t waiting = 0;  ///< requests that nobody has answered yet
};

/// A number that a peer chose, in one of the spaces of its host. The peer's GID stands in for the CA GUID
/// of 12.9.8.3.1, which anybody can write into a REQ: with it, one host could end another's connections.
struct PeerKey {
  enum class Space : uint8_t { comm_id, qpn, sidr } space{};
  uint32_t number = 0;
  Gid gid{};
  friend bool operator==(const PeerKey&, const PeerKey&) = default;
};

/// Seeded: peers choose the numbers, and must not be able to choose them all into one bucket.
struct PeerKeyHash {
  uint64_t seed = 0;
  std::size_t operator()(const PeerKey& key) const;
};

struct CmRecord : IbCm::Connection {
  uint32_t id = 0;
  CmState state{};
  bool owned = true;  ///< destroy() was not called: events are told
  bool mra_received = false;
  bool delivered = false;       ///< the application knows of what it has not answered
  bool alternate_path = false;  ///< the peer's REQ named one
  uint8_t retries_left = 0;
  uint32_t remote_id = 0;  ///< 0: not known yet
  uint32_t local_qpn = 0;
  uint64_t transaction_id = 0;
  Nanos interval{0};                      ///< between repetitions of `last`
  std::optional<Mad> last{};              ///< what we said last, for timers or the peer's repetitions
  TimerNode timer{};           ///< the next repetition, the end of time-wait, or of keeping `last`
  std::vector<PeerKey> keys{};            ///< under which it stands in `peers`
  std::shared_ptr<Listener> waits_for{};  ///< counted in `waiting` there
  std::optional<std::list<CmRecord*>::iterator> spare{};

  const CmPath& path() const { return request.path; }
  bool ud() const { return request.type == QpType::ud; }
};

struct IbCm::Impl {
  Impl(const IbCmConfig& config_, IbCmHost& host_);

  // Calls, by the file that has them. After tell() a record may be gone: it is the last thing that a step does.
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
  std::shared_ptr<Listener> listener_of(uint64_t service_id);
  CmRecord* add_request(const std::shared_ptr<Listener>& listener, CmRequest request);
  CmRecord* known(uint32_t our_id, uint32_t their_id, const Gid& source);
  void send(const CmPath& path, const Mad& mad, Counter& counter);
  void send_again(const CmRecord& r);
  void tell(CmRecord& r, CmMessage message);

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
  Random random;
  std::array<uint32_t, 3> id_key{};
  uint32_t ids_given = 0;
  TimerWheel timers;
  bool turning = false;  ///< in poll()
  std::unordered_map<uint32_t, CmRecord> records;
  std::unordered_map<PeerKey, CmRecord*, PeerKeyHash> peers;
  /// Masks, the most specific first, each with the services that were listened to under it.
  std::vector<std::pair<uint64_t, std::unordered_map<uint64_t, std::shared_ptr<Listener>>>> listeners;
  /// Records that are kept for their answer alone, the oldest first: they give way when the table is full.
  std::list<CmRecord*> spare;
};

inline std::vector<std::byte> copy_of(std::span<const std::byte> bytes) { return {bytes.begin(), bytes.end()}; }

/// EINVAL where `data` does not fit `message`.
Result<void> check_private(std::span<const std::byte> data, std::size_t most, std::string_view message);

}  // namespace uroce::cm
