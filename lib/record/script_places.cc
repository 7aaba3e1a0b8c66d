#include "record/script_places.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "record/script_names.h"

namespace uroce::record {
namespace {

// More than a script's endpoint should fill with a pattern.
constexpr uint64_t kMostBytes = uint64_t{256} << 20;

}  // namespace

void ScriptPlaces::on_lookup(const Lookup& lookup) {
  Region& region = regions_[lookup.key];
  if (lookup.result != memory::AccessResult::ok) {
    region.refused |= lookup.result == memory::AccessResult::not_permitted;
    return;
  }
  if (lookup.invalidates) region.access |= Access::remote_invalidate;
  region.opened = true;
  if (lookup.length == 0) return;
  region.first = std::min(region.first, lookup.address);
  region.end = std::max(region.end, lookup.address + lookup.length);
  region.access |= lookup.needed;
}

ScriptPlaces::Region* ScriptPlaces::find(memory::Key key) {
  const auto found = regions_.find(key);
  if (found == regions_.end() || !found->second.opened) return nullptr;
  if (found->second.number == 0) found->second.number = ++used_;
  return &found->second;
}

std::optional<std::string> ScriptPlaces::place(memory::Key key, uint64_t address) {
  const Region* region = find(key);
  if (region == nullptr) return std::nullopt;
  const uint64_t base = region->base();
  return address < base ? fmt::format("m{}-{}", region->number, base - address)
                        : fmt::format("m{}+{}", region->number, address - base);
}

std::optional<std::string> ScriptPlaces::name(memory::Key key) {
  const Region* region = find(key);
  if (region == nullptr) return std::nullopt;
  return fmt::format("m{}", region->number);
}

std::optional<std::string> ScriptPlaces::key(memory::Key key) {
  auto region = name(key);
  if (region) *region += ".key";
  return region;
}

bool ScriptPlaces::is_wrong(memory::Key key) const {
  const auto found = regions_.find(key);
  return found != regions_.end() && !found->second.opened;
}

std::string ScriptPlaces::lines() const {
  std::vector<const Region*> used(used_);
  for (const auto& [key, region] : regions_) {
    if (region.number != 0) used[region.number - 1] = &region;
  }
  std::string text;
  for (const Region* region : used) {
    std::string access;
    for (const auto& [word, flag] : names::kAccessNames) {
      if (region->access.has(flag)) access += fmt::format("{}{}", access.empty() ? "" : ",", word);
    }
    if (access.empty()) access = "none";
    const bool whole = !region->refused && !region->access.has(Access::remote_invalidate);
    text += fmt::format("region m{} len={} access={}\n", region->number,
                        std::clamp<uint64_t>(region->bytes(), 1, kMostBytes), whole ? "all" : access);
  }
  return text;
}

uint32_t ScriptPlaces::too_large() const {
  return static_cast<uint32_t>(std::ranges::count_if(
      regions_, [](const auto& known) { return known.second.number != 0 && known.second.bytes() > kMostBytes; }));
}

}  // namespace uroce::record
