#include "validate/regions.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

namespace uroce::validate {

namespace {

constexpr std::size_t kKeysRemembered = 4096;

}  // namespace

void Regions::add(Key key, const Region& region) {
  regions_[key] = region;
  std::erase(gone_, key);
}

void Regions::remove(Key key) {
  if (regions_.erase(key) == 0) return;
  gone_.push_back(key);
  if (gone_.size() > kKeysRemembered) gone_.pop_front();
}

const Region* Regions::find(Key key) const {
  const auto found = regions_.find(key);
  return found != regions_.end() ? &found->second : nullptr;
}

std::optional<Finding> Regions::check(const Sge& sge, const Owner& owner, bool written,
                                      const std::string& request) const {
  if (sge.length == 0) return std::nullopt;  // it names no byte
  const auto text = [&](const std::string& more) {
    return fmt::format("{} names {} bytes at {:#x} with lkey {:#x}, {}", request, sge.length, sge.addr, sge.lkey, more);
  };
  const Key key{owner.device, sge.lkey};
  const Region* region = find(key);
  if (region == nullptr) {
    if (std::ranges::find(gone_, key) != gone_.end()) {
      return Finding{Misuse::deregistered, text("whose region was deregistered")};
    }
    return Finding{Misuse::unregistered, text("which no region has")};
  }
  const uint64_t offset = sge.addr - region->base;
  if (offset > region->length || sge.length > region->length - offset) {
    return Finding{Misuse::outside_region,
                   text(fmt::format("but that region has {} bytes from {:#x} on", region->length, region->base))};
  }
  if (region->domain != owner.domain) {
    return Finding{Misuse::foreign_region, text("whose region is of another protection domain than the queue")};
  }
  if (written && !region->local_write) {
    return Finding{Misuse::no_local_write, text("whose region lacks IBV_ACCESS_LOCAL_WRITE")};
  }
  return std::nullopt;
}

}  // namespace uroce::validate
