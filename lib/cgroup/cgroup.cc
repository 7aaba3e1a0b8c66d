#include "cgroup/cgroup.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string_view>

namespace uroce::cgroup {
namespace {

/// Version 1 says "no limit" by a number close to that of a signed one, rounded down to whole pages.
constexpr uint64_t kNoLimit = uint64_t{1} << 62;

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Nothing where the file is missing, or says "max".
std::optional<uint64_t> number_in(const std::string& path) {
  const std::string text = text_of(path);
  uint64_t number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  if (read.ec != std::errc() || number >= kNoLimit) return std::nullopt;
  return number;
}

std::string between(const std::string& text, const std::string& before, char after) {
  const auto at = text.find(before);
  if (at == std::string::npos) return {};
  const auto begin = at + before.size();
  return text.substr(begin, text.find(after, begin) - begin);
}

uint64_t field(const std::string& stat, const std::string& name) {
  const std::string value = between('\n' + stat, '\n' + name + ' ', '\n');
  uint64_t number = 0;
  std::from_chars(value.data(), value.data() + value.size(), number);
  return number;
}

/// File pages that the kernel takes back before it ends a process: all that are unused for a while, and half of the
/// others, as MemAvailable counts them (proc(5)).
uint64_t reclaimable(const std::string& folder, std::string_view prefix) {
  const std::string stat = text_of(folder + "/memory.stat");
  return field(stat, std::string(prefix) + "inactive_file") + field(stat, std::string(prefix) + "active_file") / 2;
}

bool has_word(std::string_view list, std::string_view word) {
  for (std::size_t at = 0; at <= list.size();) {
    const std::size_t comma = std::min(list.find(',', at), list.size());
    if (list.substr(at, comma - at) == word) return true;
    at = comma + 1;
  }
  return false;
}

/// Undoes the octal escapes of mountinfo.
std::string unescape(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned code = 0;
    if (text[i] == '\\' && i + 4 <= text.size() &&
        std::from_chars(text.data() + i + 1, text.data() + i + 4, code, 8).ptr == text.data() + i + 4) {
      out += static_cast<char>(code);
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

std::string without_slash(std::string path) {
  while (!path.empty() && path.back() == '/') path.pop_back();
  return path;
}

/// The group's path in a membership such as "4:memory,hugetlb:/path" or "0::/path" per line.
std::optional<std::string> path_of(const std::string& membership, const std::string& controller, bool second) {
  std::istringstream lines(membership);
  for (std::string line; std::getline(lines, line);) {
    const auto first = line.find(':');
    const auto next = line.find(':', first + 1);
    if (first == std::string::npos || next == std::string::npos) continue;
    const std::string list = line.substr(first + 1, next - first - 1);
    if (second ? list.empty() : has_word(list, controller)) return without_slash(line.substr(next + 1));
  }
  return std::nullopt;
}

void narrow(Room& room, uint64_t limit, uint64_t used, const std::string& file) {
  room.smallest = std::min(room.smallest, limit);
  const uint64_t left = limit - std::min(limit, used);
  if (!room.file.empty() && left >= room.left) return;
  room.left = left;
  room.limit = limit;
  room.file = file;
}

/// Takes each limit of a group into account. `used` names the file of its use, of which `spare` bytes do not count.
template <class Spare>
void narrow_by(Room& room, const std::string& folder, std::initializer_list<const char*> limits, const char* used,
               Spare spare) {
  for (const char* name : limits) {
    const std::string file = folder + '/' + name;
    const auto limit = number_in(file);
    if (!limit) continue;
    const uint64_t all = number_in(folder + '/' + used).value_or(0);
    narrow(room, *limit, all - std::min(all, spare()), file);
  }
}

}  // namespace

Groups::Groups() : Groups("", text_of("/proc/self/mountinfo")) {}

Groups::Groups(std::string root, const std::string& mountinfo) : root_(std::move(root)) {
  std::istringstream lines(mountinfo);
  for (std::string line; std::getline(lines, line);) {
    const auto dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    std::istringstream before(line.substr(0, dash)), behind(line.substr(dash + 3));
    std::string id, parent, device, group, folder, type, source, options;
    before >> id >> parent >> device >> group >> folder;
    behind >> type >> source >> options;
    if (type != "cgroup" && type != "cgroup2") continue;
    mounts_.push_back({.controllers = type == "cgroup" ? options : "",
                       .group = without_slash(unescape(group)),
                       .folder = without_slash(unescape(folder))});
    if (type == "cgroup2" && has_word(options, "memory_hugetlb_accounting")) huge_pages_are_memory_ = true;
  }
}

// A container may see its own group alone, under the host's name for it or as the root.
std::vector<std::string> Groups::folders(const std::string& membership, const std::string& controller,
                                         bool second) const {
  const auto path = path_of(membership, controller, second);
  const Mount* best = nullptr;
  for (const Mount& mount : mounts_) {
    if (second ? !mount.controllers.empty() : !has_word(mount.controllers, controller)) continue;
    if (best == nullptr || mount.group.size() < best->group.size()) best = &mount;
  }
  if (!path || best == nullptr) return {};
  std::string below;
  if (path->starts_with(best->group + '/')) below = path->substr(best->group.size());
  if (below.find("/..") != std::string::npos) below.clear();  // outside of what this namespace shows
  std::vector<std::string> out;
  for (;;) {
    out.push_back(root_ + best->folder + below);
    if (below.empty()) return out;
    below.resize(below.rfind('/'));
  }
}

Room Groups::memory(const std::string& membership) const {
  Room room;
  // Beyond memory.high nothing ends, but every allocation waits, and all clients with it.
  for (const std::string& folder : folders(membership, "memory", true)) {
    narrow_by(room, folder, {"memory.max", "memory.high"}, "memory.current", [&] { return reclaimable(folder, ""); });
  }
  for (const std::string& folder : folders(membership, "memory", false)) {
    narrow_by(room, folder, {"memory.limit_in_bytes"}, "memory.usage_in_bytes",
              [&] { return reclaimable(folder, "total_"); });
  }
  return room;
}

Room Groups::huge_pages(const std::string& membership, uint64_t page_bytes) const {
  const bool large = page_bytes >= uint64_t{1} << 30;
  const std::string size =
      "hugetlb." + (large ? std::to_string(page_bytes >> 30) + "GB" : std::to_string(page_bytes >> 20) + "MB");
  const auto none = [] { return uint64_t{0}; };
  Room room;
  for (const std::string& kind : {size, size + ".rsvd"}) {
    for (const std::string& folder : folders(membership, "hugetlb", true)) {
      narrow_by(room, folder, {(kind + ".max").c_str()}, (kind + ".current").c_str(), none);
    }
    for (const std::string& folder : folders(membership, "hugetlb", false)) {
      narrow_by(room, folder, {(kind + ".limit_in_bytes").c_str()}, (kind + ".usage_in_bytes").c_str(), none);
    }
  }
  return room;
}

Room Groups::memory() const { return memory(text_of("/proc/self/cgroup")); }

Room Groups::huge_pages(uint64_t page_bytes) const { return huge_pages(text_of("/proc/self/cgroup"), page_bytes); }

}  // namespace uroce::cgroup
