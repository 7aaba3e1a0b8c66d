#include "service/subordinates.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <string_view>
#include <tuple>
#include <utility>

#include <pwd.h>
#include <sys/stat.h>

namespace uroce::service {
namespace {

/// The owner of a range may itself be in one.
constexpr int kMostOwners = 8;

std::optional<uint32_t> number_in(std::string_view text) {
  uint32_t value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || rest != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

Subordinates::Subordinates(std::string path, FindUid find) : path_(std::move(path)), find_(std::move(find)) {}

std::optional<uint32_t> Subordinates::uid_of_name(const std::string& name) {
  std::array<char, 4096> texts;
  passwd entry{};
  passwd* found = nullptr;
  if (getpwnam_r(name.c_str(), &entry, texts.data(), texts.size(), &found) != 0 || found == nullptr) {
    return std::nullopt;
  }
  return entry.pw_uid;
}

uint32_t Subordinates::user_of(uint32_t uid, SubordinatesAre are) {
  look();
  for (int hops = 0; hops < kMostOwners; ++hops) {
    const auto range =
        std::ranges::find_if(ranges_, [&](const Range& r) { return uid >= r.first && uid - r.first < r.count; });
    if (range == ranges_.end()) return uid;
    if (are == SubordinatesAre::tenants) return uid - (uid - range->first) % kTenant;
    const uint32_t owner = owner_of(*range);
    if (owner == uid) return uid;
    uid = owner;
  }
  return uid;
}

// Without a known owner the range is a user.
uint32_t Subordinates::owner_of(Range& range) const {
  if (!range.owner) {
    const auto number = number_in(range.name);
    range.owner = (number ? number : find_(range.name)).value_or(range.first);
  }
  return *range.owner;
}

void Subordinates::look() {
  struct stat file{};
  if (stat(path_.c_str(), &file) != 0) file = {};
  const auto seen = [](const timespec& at, ino_t inode, off_t size) {
    return std::tuple(at.tv_sec, at.tv_nsec, inode, size);
  };
  if (seen(file.st_mtim, file.st_ino, file.st_size) == seen(changed_, inode_, size_)) return;
  changed_ = file.st_mtim;
  inode_ = file.st_ino;
  size_ = file.st_size;
  read();
}

// A line is NAME:FIRST:COUNT. Others are passed over, as useradd(8) does.
void Subordinates::read() {
  ranges_.clear();
  std::ifstream file(path_);
  for (std::string line; ranges_.size() < kMostRanges && std::getline(file, line);) {
    const std::size_t one = line.find(':'), two = line.find(':', one + 1);
    if (one == std::string::npos || two == std::string::npos) continue;
    const auto first = number_in(std::string_view(line).substr(one + 1, two - one - 1));
    const auto count = number_in(std::string_view(line).substr(two + 1));
    if (!first || !count || *count == 0) continue;
    ranges_.push_back({.name = line.substr(0, one), .first = *first, .count = *count, .owner = {}});
  }
}

}  // namespace uroce::service
