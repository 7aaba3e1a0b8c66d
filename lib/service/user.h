// Budgets: the share of the daemon's resources that one user may have, over all its programs together.
//
// A limit that the operator sets holds for each user, root included. Without one, an ordinary user may have a quarter
// of what there is; all ordinary users together leave an eighth to root and to the daemon's own user, whom only the
// devices limit. Objects take memory of the daemon, too: an ordinary user may have a quarter of what its control group
// allows, and nobody what would end the daemon (MemoryRoom). Any thread.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <uroce/error.h>

#include "message/operator_messages.h"
#include "service/capacity.h"
#include "service/memory_room.h"
#include "service/peer.h"
#include "service/resource.h"
#include "service/sight.h"
#include "service/subordinates.h"
#include "service/user_traffic.h"
#include "service/wait_account.h"
#include "transport/engine/owners.h"

namespace uroce::service {

class User;
class Users;

/// Why a user is refused.
struct Verdict {
  enum class Of : uint8_t { user, ordinary_users, memory };
  uint64_t used = 0, limit = 0;  ///< of the user, or of all ordinary users
  Of limit_of = Of::user;
};

/// A part of a user's budget, given back at the end.
class Charge {
 public:
  Charge() = default;
  Charge(Charge&& other) noexcept;
  Charge& operator=(Charge&& other) noexcept;
  ~Charge();

 private:
  friend class User;
  Charge(std::shared_ptr<User> user, Resource resource, uint64_t amount);

  std::shared_ptr<User> user_{};
  Resource resource_{};
  uint64_t amount_ = 0;
};

/// All privileged peers with one uid are one user, and all others that are charged to it are another.
class User : public std::enable_shared_from_this<User> {
 public:
  /// `number`: no other user's while this one lives.
  User(Users& users, uint32_t number, uint32_t uid, bool privileged, std::shared_ptr<UserTotals> totals)
      : users_(users), number_(number), uid_(uid), privileged_(privileged), totals_(std::move(totals)) {}

  uint32_t uid() const { return uid_; }
  bool privileged() const { return privileged_; }
  /// The user as engines know it, with its present weight.
  /// The owner of the sessions of one of the user's clients.
  transport::Owner owner(uint32_t client) const;
  /// Whether shared mappings of files on a disk may be registered.
  bool may_register_files() const;
  /// Whether engines have waited too long for memory that this user punched. Privileged users are trusted.
  bool must_be_steady() const;
  /// Engines have waited for this user's memory: what follows.
  WaitAccount::Verdict note_wait(Nanos waited);
  /// Whether [[user]] gives it raw packet queue pairs.
  bool may_have_raw_packets() const;
  /// Errors: ENOMEM, or EMFILE for descriptors, naming the user, its use, the limit and the setting. The log gets a
  /// line about `peer`, at most one per user and kQuiet.
  Result<Charge> charge(Resource resource, uint64_t amount, const Peer& peer);
  /// Memory of the daemon beyond what a Resource takes. Errors: ENOMEM, as charge().
  Result<MemoryRoom::Hold> take_memory(uint64_t bytes, const Peer& peer);
  /// The most of a resource that charge() gives `peer`.
  uint64_t limit(Resource resource, const Peer& peer) const;
  uint64_t used(Resource resource) const { return used_[index(resource)].load(std::memory_order_relaxed); }
  UserTraffic& traffic() { return totals_->traffic; }
  message::UserRow row() const;

 private:
  friend class Charge;
  friend class Users;
  static std::size_t index(Resource resource) { return static_cast<std::size_t>(resource); }
  void give_back(Resource resource, uint64_t amount);
  /// Counts and logs it.
  std::unexpected<Error> refuse(Error error, const Peer& peer);
  std::string text_of(const Verdict& refused, Resource resource, uint64_t amount) const;

  Users& users_;
  const uint32_t number_;
  const uint32_t uid_;
  const bool privileged_;
  std::array<std::atomic<uint64_t>, kResources> used_{};
  const std::shared_ptr<UserTotals> totals_;
};

/// One user's settings, [[user]] of the configuration.
struct UserSettings {
  std::string name{};  ///< of the user, as in the file
  uint32_t uid = 0;
  uint32_t weight = 1;       ///< its share of the engines' time relative to others', 1..Owner::kMaxWeight
  Limits limits{};           ///< 0: those of [limits]
  bool file_memory = false;  ///< as in BudgetSettings, for this user
  bool raw_packets = false;  ///< may have raw packet queue pairs without CAP_NET_RAW
  bool operator==(const UserSettings&) const = default;
};

struct BudgetSettings {
  Limits limits{};               ///< of each user
  bool file_memory = false;      ///< shared mappings of files on a local disk may be registered
  uint32_t punch_penalty = 600;  ///< seconds, of WaitAccount; 0: none
  bool tenant_ranges = false;    ///< SubordinatesAre::tenants
  std::vector<UserSettings> users{};
  bool operator==(const BudgetSettings&) const = default;
};

class Users {
 public:
  /// The users whose counters are kept. With more, the user without a connection that began the longest ago is
  /// forgotten: its counters begin at 0 when it comes again.
  static constexpr std::size_t kKept = 4096;

  /// One line of audit log about user `uid`. Any thread; bounds the lines.
  using Log = std::function<void(uint32_t uid, const std::string&)>;

  /// `capacity`: of each resource. `room`: nullptr where nothing limits memory. Both live as long as the users.
  Users(const Capacity& capacity, BudgetSettings settings, Log log, MemoryRoom* room = nullptr);

  /// The settings hold from now on. A user keeps its resources beyond a lower limit.
  void configure(BudgetSettings settings);
  /// A resource whose limit the operator sets elsewhere: the connections, by max_clients.
  void set_capacity(Resource resource, uint64_t capacity);
  /// The daemon's control group allows so much memory now.
  void set_memory(uint64_t bytes);
  std::shared_ptr<User> of(const Peer& peer);
  /// The uid that an ordinary peer is charged to: its own where that has a [[user]], or else that of the owner of its
  /// range or of its user namespace. Nothing where it pays for itself. One thread.
  std::optional<uint32_t> payer_of(const Peer& peer, Subordinates& subordinates) const;
  /// Of the users with connections, as `sight` allows, in the order of UserRow::key().
  std::vector<message::UserRow> rows(const Sight& sight) const;

 private:
  friend class User;
  struct Known {
    std::weak_ptr<User> user{};
    std::shared_ptr<UserTotals> totals = std::make_shared<UserTotals>();
    uint64_t turn = 0;  ///< grows with each user that begins
  };
  /// Keeps `users_` within kKept where it can. The caller holds mutex_.
  void forget_some();
  /// nullptr without a [[user]] of its uid. The caller holds mutex_.
  const UserSettings* settings_of(uint32_t uid) const;
  /// The limit that the operator has set, or 0. The caller holds mutex_.
  uint64_t set_limit(const User& user, Resource resource) const;
  /// The user's own limit. `locked_bytes`: Peer's.
  uint64_t limit_of(const User& user, Resource resource, uint64_t locked_bytes) const;
  /// The part of all ordinary users together. The caller holds mutex_.
  uint64_t most_of_ordinary(Resource resource) const;
  /// Nothing where it fits.
  std::optional<Verdict> take(User& user, Resource resource, uint64_t amount, const Peer& peer);
  /// Nothing where the daemon's memory has so much for an ordinary user. The caller holds mutex_.
  std::optional<Verdict> memory_verdict(const User& user, Resource resource, uint64_t amount) const;

  mutable std::mutex mutex_;
  Capacity capacity_;
  BudgetSettings settings_;
  const Log log_;
  MemoryRoom* const room_;
  WaitAccount waits_;
  PerResource<uint64_t> ordinary_{};  // used by all ordinary users together
  std::map<std::pair<uint32_t, bool>, Known> users_;
  uint64_t last_turn_ = 0;
};

}  // namespace uroce::service
