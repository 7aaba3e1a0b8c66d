// The connections of one device: by our id, and by the peer's numbers; with their timers, and the backlogs in which
// requests wait.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include <uroce/types.h>

#include "base/secret.h"
#include "base/time.h"
#include "base/timer_wheel.h"
#include "cm/ib/backlog.h"
#include "cm/ib/connection.h"
#include "cm/ib/context.h"
#include "cm/ib/snapshot.h"

namespace uroce::cm {

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

/// A connection's place in the table.
struct CmRecord {
  CmConnection c;
  TimerNode timer{};                    ///< the next repetition, or the end of time-wait or of keeping `c.last`
  std::shared_ptr<Backlog> waits_in{};  ///< while it is neither delivered nor answered
  Backlog::Place place{};               ///< there
  std::optional<std::list<CmRecord*>::iterator> spare{};
};

class ConnectionTable {
 public:
  explicit ConnectionTable(const IbCmConfig& config);

  std::size_t size() const { return records_.size(); }
  /// nullptr: there is none.
  CmRecord* find(uint32_t id);
  const CmRecord* find(uint32_t id) const;
  CmRecord* find(const PeerKey& key);
  /// A record with a new id. It replaces the oldest one that is kept only for its answer, if there is no room
  /// otherwise. nullptr: the table is full.
  CmRecord* add();
  void erase(CmRecord& r);
  /// The record of a closed connection without an owner: it goes, or is kept for its answer.
  void retire(CmRecord& r);

  /// Enters the record under the peer's numbers.
  void enter(CmRecord& r);
  void free_qpn(CmRecord& r);
  /// Takes the record out under all of the peer's numbers.
  void free(CmRecord& r);

  void wait(CmRecord& r, std::shared_ptr<Backlog> backlog);
  void stop_waiting(CmRecord& r);

  void start_timer(CmRecord& r, Nanos deadline, Nanos now);
  void stop_timer(CmRecord& r);
  /// Takes the next record whose time is up; nullptr: there is none. Once begun, call it until it returns nullptr.
  CmRecord* take_due(Nanos now);
  Nanos next_deadline() const { return timers_.next_deadline(); }

  // The calls of IbCm's snapshot.
  CommIdsSnapshot comm_ids() const { return {.key = permute_id_.key(), .given = ids_given_}; }
  void adopt(const CommIdsSnapshot& ids);
  /// All records, those that are kept only for their answer last and in their order.
  std::vector<const CmRecord*> all() const;
  /// A record of another table, under its numbers. nullptr: one of them is another record's, or the table is full.
  CmRecord* adopt(const CmConnection& c);

 private:
  const uint32_t most_;
  SecretPermutation permute_id_;
  uint32_t ids_given_ = 0;
  TimerWheel timers_;
  std::unordered_map<uint32_t, CmRecord> records_;
  std::unordered_map<PeerKey, CmRecord*, PeerKeyHash> peers_;
  /// Records kept only for their answer, the oldest first. They are reused when the table is full.
  std::list<CmRecord*> spare_;
};

}  // namespace uroce::cm
