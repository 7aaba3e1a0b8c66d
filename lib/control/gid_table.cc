// The device's addresses while it runs.
#include <algorithm>
#include <cerrno>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "control/device.h"

namespace uroce::control {
namespace {

constexpr std::size_t kMostEntries = 256;  // an index is a byte
/// New addresses take unused entries below this index first, so that the index of a removed address does not soon
/// belong to another. Programs expect a table of this size, with empty entries.
constexpr std::size_t kUsualEntries = 16;

std::optional<std::size_t> place_for(const Gid& gid, const std::vector<Gid>& table, const std::vector<Gid>& former) {
  const auto is_empty = [&](std::size_t i) { return table[i] == Gid{}; };
  for (std::size_t i = 0; i < table.size(); ++i) {
    if (is_empty(i) && former[i] == gid) return i;
  }
  if (table.size() < kUsualEntries) return table.size();
  for (std::size_t i = 0; i < table.size(); ++i) {
    if (is_empty(i)) return i;
  }
  return table.size() < kMostEntries ? std::optional(table.size()) : std::nullopt;
}

}  // namespace

std::vector<Gid> Device::gids() const {
  const std::scoped_lock lock(gids_mutex_);
  return gids_;
}

// The caller holds the control lock.
Result<bool> Device::change_gids(std::span<const Gid> wanted) {
  if (wanted.size() > kMostEntries || std::ranges::find(wanted, Gid{}) != wanted.end()) {
    return fail(EINVAL, fmt::format("{}: cannot set {} addresses; a port has at most {}, none of them zero",
                                    config_.name, wanted.size(), kMostEntries));
  }
  std::vector<Gid> next = gids();
  const std::vector<Gid> before = next;
  const auto is_there = [&](const Gid& gid) { return !left_out_ || !left_out_(gid); };
  for (Gid& gid : next) {
    if (std::ranges::find(wanted, gid) == wanted.end() || !is_there(gid)) gid = {};
  }
  for (const Gid& gid : wanted) {
    if (!is_there(gid) || std::ranges::find(next, gid) != next.end()) continue;
    const auto place = place_for(gid, next, former_);
    if (!place)
      return fail(ENOMEM, fmt::format("{}: the GID table is full, with {} entries; remove addresses from the port",
                                      config_.name, kMostEntries));
    if (*place == next.size()) {
      next.emplace_back();
      former_.emplace_back();
    }
    next[*place] = former_[*place] = gid;
  }
  addresses_.assign(wanted.begin(), wanted.end());
  if (next == before) return false;
  const std::scoped_lock guard(gids_mutex_);
  gids_ = std::move(next);
  return true;
}

Result<void> Device::set_gids(std::span<const Gid> wanted) {
  const auto lock = runner_.lock();
  if (auto alive = check_alive(); !alive) return alive;
  return put_gids(wanted);
}

Result<void> Device::leave_out_gids(std::function<bool(const Gid&)> gone) {
  const auto lock = runner_.lock();
  if (auto alive = check_alive(); !alive) return alive;
  left_out_ = std::move(gone);
  const std::vector<Gid> all = addresses_;
  return put_gids(all);
}

Result<void> Device::put_gids(std::span<const Gid> wanted) {
  const auto changed = change_gids(wanted);
  if (!changed) return std::unexpected(changed.error());
  if (!*changed) return {};
  const std::vector<Gid> next = used_gids();
  Result<void> all;
  for (uint32_t index = 0; index < engines(); ++index) {
    if (auto ran = runner_.run(index, [&](transport::Engine& engine) { engine.set_gids(next); }); !ran) all = ran;
  }
  events_.broadcast({AsyncEventType::gid_change, 1});
  return all;
}

std::vector<Gid> Device::former_gids() {
  const auto lock = runner_.lock();
  return former_;
}

Result<void> Device::adopt_gids(const std::vector<Gid>& former) {
  if (former.size() > kMostEntries || std::ranges::find(former, Gid{}) != former.end()) {
    return fail(EINVAL, fmt::format("{} cannot have {} addresses of before; a port has at most {}, none of them zero",
                                    config_.name, former.size(), kMostEntries));
  }
  const auto lock = runner_.lock();
  const std::vector<Gid> now = addresses_;
  former_ = former;
  {
    const std::scoped_lock guard(gids_mutex_);
    gids_.assign(former.size(), Gid{});
  }
  const auto changed = change_gids(now);
  return changed ? Result<void>() : std::unexpected(changed.error());
}

// Engines get the table again where an earlier call reached only some of them.
bool Device::try_set_gids(std::span<const Gid> wanted) {
  bool changed = false;
  auto next = std::make_shared<std::vector<Gid>>();
  const auto change = [&] {
    changed = change_gids(wanted).value_or(false);
    *next = used_gids();
  };
  const bool posted = runner_.try_post([next](transport::Engine& engine) { engine.set_gids(*next); }, change);
  if (changed) events_.broadcast({AsyncEventType::gid_change, 1});
  return posted;
}

std::vector<Gid> Device::used_gids() const {
  std::vector<Gid> used = gids();
  std::erase(used, Gid{});
  return used;
}

}  // namespace uroce::control
