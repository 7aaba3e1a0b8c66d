#include "service/user.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <fmt/format.h>

namespace uroce::service {

namespace {

/// An ordinary user's part of what there is, and the part that is left when all of them have theirs.
constexpr uint64_t kShare = 4;
constexpr uint64_t kReserve = 8;

}  // namespace

Charge::Charge(std::shared_ptr<User> user, Resource resource, uint64_t amount)
    : user_(std::move(user)), resource_(resource), amount_(amount) {}

Charge::Charge(Charge&& other) noexcept
    : user_(std::move(other.user_)), resource_(other.resource_), amount_(std::exchange(other.amount_, 0)) {}

Charge& Charge::operator=(Charge&& other) noexcept {
  std::swap(user_, other.user_);
  std::swap(resource_, other.resource_);
  std::swap(amount_, other.amount_);
  return *this;
}

Charge::~Charge() {
  if (user_ != nullptr) user_->give_back(resource_, amount_);
}

Result<Charge> User::charge(Resource resource, uint64_t amount, const Peer& peer) {
  if (const auto refused = users_.take(*this, resource, amount, peer)) {
    return refuse({resource == Resource::descriptor ? EMFILE : ENOMEM, text_of(*refused, resource, amount)}, peer);
  }
  Charge charge(shared_from_this(), resource, amount);
  // Queues ask for themselves: some have huge pages.
  if (resource == Resource::queue_bytes) return charge;
  if (auto room = take_memory(memory_of(resource, amount), peer); !room) return std::unexpected(room.error());
  return charge;
}

Result<MemoryRoom::Hold> User::take_memory(uint64_t bytes, const Peer& peer) {
  if (users_.room_ == nullptr) return MemoryRoom::Hold();
  auto room = users_.room_->take(bytes, privileged_);
  if (!room) return refuse(room.error(), peer);
  return room;
}

std::unexpected<Error> User::refuse(Error error, const Peer& peer) {
  totals_->refusals.fetch_add(1, std::memory_order_relaxed);
  users_.log_(uid_, fmt::format("process {} ({}) is refused: {}", peer.pid, peer.command, error.text));
  return std::unexpected(std::move(error));
}

std::string User::text_of(const Verdict& refused, Resource resource, uint64_t amount) const {
  const ResourceName& name = name_of(resource);
  switch (refused.limit_of) {
    case Verdict::Of::user:
      return fmt::format("user {} has {} {} and asks for {} more; the limit is {} ({}{}); release some, or raise it",
                         uid_, refused.used, name.plural, amount, refused.limit, name.setting, name.also);
    case Verdict::Of::ordinary_users:
      return fmt::format(
          "user {} would have {} {} with {} more; all ordinary users together have {} of {}, and the rest is kept for "
          "root",
          uid_, used(resource) + amount, name.plural, amount, refused.used, refused.limit);
    case Verdict::Of::memory: break;
  }
  return fmt::format(
      "user {} has objects of {} bytes and asks for {} more {}; the limit is {} bytes, a quarter of the daemon's "
      "memory; "
      "release some, or raise the limit of its control group (MemoryMax of systemd)",
      uid_, refused.used, amount, name.plural, refused.limit);
}

uint64_t User::limit(Resource resource, const Peer& peer) const {
  const uint64_t own = users_.limit_of(*this, resource, peer.locked_bytes);
  if (privileged_) return own;
  const std::scoped_lock lock(users_.mutex_);
  const uint64_t most = std::min(own, users_.most_of_ordinary(resource));
  const uint64_t memory = memory_of(resource, 1);
  return memory == 0 ? most : std::min(most, users_.capacity_.memory / kShare / memory);
}

void User::give_back(Resource resource, uint64_t amount) {
  used_[index(resource)].fetch_sub(amount, std::memory_order_relaxed);
  if (privileged_) return;
  const std::scoped_lock lock(users_.mutex_);
  users_.ordinary_[resource] -= amount;
}

transport::Owner User::owner(uint32_t client) const {
  const std::scoped_lock lock(users_.mutex_);
  const UserSettings* const own = users_.settings_of(uid_);
  return {.user = number_, .weight = own != nullptr ? own->weight : 1, .client = client};
}

bool User::may_register_files() const {
  const std::scoped_lock lock(users_.mutex_);
  const UserSettings* const own = users_.settings_of(uid_);
  return users_.settings_.file_memory || (own != nullptr && own->file_memory);
}

bool User::must_be_steady() const {
  if (privileged_) return false;
  const std::scoped_lock lock(users_.mutex_);
  return users_.waits_.refused(uid_, std::chrono::steady_clock::now(),
                               std::chrono::seconds(users_.settings_.punch_penalty));
}

WaitAccount::Verdict User::note_wait(Nanos waited) {
  if (privileged_) return WaitAccount::Verdict::allowed;
  const std::scoped_lock lock(users_.mutex_);
  return users_.waits_.note(uid_, waited, std::chrono::steady_clock::now(),
                            std::chrono::seconds(users_.settings_.punch_penalty));
}

bool User::may_have_raw_packets() const {
  const std::scoped_lock lock(users_.mutex_);
  const UserSettings* const own = users_.settings_of(uid_);
  return own != nullptr && own->raw_packets;
}

message::UserRow User::row() const {
  message::UserRow row{.uid = uid_,
                       .privileged = privileged_,
                       .refusals = totals_->refusals.load(std::memory_order_relaxed),
                       .traffic = to_message(totals_->traffic.sum())};
  for (const ResourceName& name : kResourceNames) {
    row.budgets.push_back({.resource = std::string(name.setting.substr(name.setting.find('_') + 1)),
                           .used = used(name.resource),
                           .limit = users_.limit_of(*this, name.resource, 0)});
  }
  return row;
}

Users::Users(const Capacity& capacity, BudgetSettings settings, Log log, MemoryRoom* room)
    : capacity_(capacity), settings_(std::move(settings)), log_(std::move(log)), room_(room) {}

void Users::configure(BudgetSettings settings) {
  const std::scoped_lock lock(mutex_);
  settings_ = std::move(settings);
}

void Users::set_capacity(Resource resource, uint64_t capacity) {
  const std::scoped_lock lock(mutex_);
  capacity_.shared[resource] = capacity_.whole[resource] = capacity;
}

void Users::set_memory(uint64_t bytes) {
  const std::scoped_lock lock(mutex_);
  capacity_.set_memory(bytes);
}

std::shared_ptr<User> Users::of(const Peer& peer) {
  const std::scoped_lock lock(mutex_);
  Known& known = users_[{peer.payer(), peer.privileged}];
  if (auto user = known.user.lock()) return user;
  known.turn = ++last_turn_;
  // Numbers begin again after 2^32 users. By then the first ones are gone.
  auto user =
      std::make_shared<User>(*this, static_cast<uint32_t>(known.turn), peer.payer(), peer.privileged, known.totals);
  known.user = user;
  forget_some();
  return user;
}

// Asking for a name may take a while, so not under the lock.
std::optional<uint32_t> Users::payer_of(const Peer& peer, Subordinates& subordinates) const {
  auto are = SubordinatesAre::charged_to_owner;
  {
    const std::scoped_lock lock(mutex_);
    if (peer.privileged || settings_of(peer.uid) != nullptr) return std::nullopt;
    if (settings_.tenant_ranges) are = SubordinatesAre::tenants;
  }
  uint32_t payer = subordinates.user_of(peer.uid, are);
  if (payer == peer.uid && peer.namespace_owner) payer = subordinates.user_of(*peer.namespace_owner, are);
  return payer != peer.uid ? std::optional(payer) : std::nullopt;
}

void Users::forget_some() {
  if (users_.size() <= kKept) return;
  auto oldest = users_.end();
  for (auto one = users_.begin(); one != users_.end(); ++one) {
    if (!one->second.user.expired()) continue;
    if (oldest == users_.end() || one->second.turn < oldest->second.turn) oldest = one;
  }
  if (oldest != users_.end()) users_.erase(oldest);
}

std::vector<message::UserRow> Users::rows(const Sight& sight) const {
  std::vector<std::shared_ptr<User>> seen;
  {
    const std::scoped_lock lock(mutex_);
    for (const auto& [key, known] : users_) {
      auto user = known.user.lock();
      if (user != nullptr && sight.budget_of(user->uid())) seen.push_back(std::move(user));
    }
  }
  std::vector<message::UserRow> rows;
  for (const auto& user : seen) rows.push_back(user->row());
  return rows;
}

const UserSettings* Users::settings_of(uint32_t uid) const {
  const auto own = std::ranges::find(settings_.users, uid, &UserSettings::uid);
  return own != settings_.users.end() ? &*own : nullptr;
}

uint64_t Users::set_limit(const User& user, Resource resource) const {
  const UserSettings* const own = settings_of(user.uid());
  return own != nullptr && own->limits[resource] != 0 ? own->limits[resource] : settings_.limits[resource];
}

uint64_t Users::limit_of(const User& user, Resource resource, uint64_t locked_bytes) const {
  const std::scoped_lock lock(mutex_);
  if (const uint64_t set = set_limit(user, resource); set != 0) return set;
  if (user.privileged()) return capacity_.whole[resource];
  const uint64_t all = capacity_.shared[resource];
  // As for an RNIC, whose driver locks registered memory: a user that may lock more may register more.
  if (resource == Resource::registered_bytes) return std::clamp(locked_bytes, all / kShare, all);
  return std::max<uint64_t>(all / kShare, 1);
}

uint64_t Users::most_of_ordinary(Resource resource) const {
  const uint64_t all = capacity_.shared[resource];
  // Registered memory is the clients' own: there is nothing to keep back.
  return resource == Resource::registered_bytes ? UINT64_MAX : all - all / kReserve;
}

std::optional<Verdict> Users::take(User& user, Resource resource, uint64_t amount, const Peer& peer) {
  const uint64_t limit = limit_of(user, resource, peer.locked_bytes);
  const std::scoped_lock lock(mutex_);
  auto& used = user.used_[User::index(resource)];
  const uint64_t own = used.load(std::memory_order_relaxed);
  if (own > limit || amount > limit - own) return Verdict{.used = own, .limit = limit};
  if (!user.privileged()) {
    if (auto refused = memory_verdict(user, resource, amount)) return refused;
    uint64_t& sum = ordinary_[resource];
    const uint64_t most = most_of_ordinary(resource);
    if (sum > most || amount > most - sum)
      return Verdict{.used = sum, .limit = most, .limit_of = Verdict::Of::ordinary_users};
    sum += amount;
  }
  used.fetch_add(amount, std::memory_order_relaxed);
  return std::nullopt;
}

// The operator may give a user more queues than that.
std::optional<Verdict> Users::memory_verdict(const User& user, Resource resource, uint64_t amount) const {
  const auto counts = [&](Resource one) { return one != Resource::queue_bytes || set_limit(user, one) == 0; };
  if (!counts(resource)) return std::nullopt;
  const uint64_t more = memory_of(resource, amount);
  uint64_t own = 0;
  for (const ResourceName& name : kResourceNames) {
    if (counts(name.resource)) own += memory_of(name.resource, user.used(name.resource));
  }
  const uint64_t limit = capacity_.memory / kShare;
  if (own <= limit && more <= limit - own) return std::nullopt;
  return Verdict{.used = own, .limit = limit, .limit_of = Verdict::Of::memory};
}

}  // namespace uroce::service
