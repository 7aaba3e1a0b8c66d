#include "control/key_registry.h"

#include <algorithm>
#include <cerrno>

#include <fmt/format.h>

namespace uroce::control {

KeyRegistry::KeyRegistry(std::string device, uint32_t max_mr, const Secret& seed)
    : device_(std::move(device)), max_mr_(max_mr), table_(std::max(2u, max_mr), seed) {}

Result<void> KeyRegistry::check_room() const {
  // The table rounds up to a power of two; the limit is what the setting says.
  if (table_.used() < max_mr_) return {};
  return fail(ENOMEM, fmt::format("{} has {} memory regions and windows, which is the limit (max_mr); register fewer, "
                                  "larger regions or raise it",
                                  device_, max_mr_));
}

Result<memory::Key> KeyRegistry::add(const memory::RegionSpec& spec, const memory::KeyState* as,
                                     memory::SlotChoice slot) {
  if (auto room = check_room(); !room) return std::unexpected(room.error());
  return table_.add(spec, as, slot);
}

Result<memory::Key> KeyRegistry::add_null(memory::PdId pd, const memory::KeyState* as) {
  if (auto room = check_room(); !room) return std::unexpected(room.error());
  return table_.add_null(pd, as);
}

Result<memory::Key> KeyRegistry::add_window(memory::PdId pd, WindowType type, const memory::KeyState* as) {
  if (auto room = check_room(); !room) return std::unexpected(room.error());
  return table_.add_window(pd, type, as);
}

void KeyRegistry::end(memory::Key key, std::shared_ptr<void> backing, EngineRunner& runner) {
  // One quiescent point serves all keys removed before it.
  std::vector<Ended> removed;
  {
    const auto lock = runner.lock();
    table_.remove(key);
    removed.swap(unretired_);
    removed.push_back({key, std::move(backing)});
  }
  const bool unused = runner.quiesce().has_value();
  const auto lock = runner.lock();
  for (auto& gone : removed) {
    if (unused) {
      table_.retire(gone.key);
    } else {
      unretired_.push_back(std::move(gone));
    }
  }
}

}  // namespace uroce::control
