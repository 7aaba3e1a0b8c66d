// The limits that control groups set to this process: its own group's and those of all groups around it, of versions 1
// and 2 (cgroups(7)). They narrow what sysconf(3) says of the machine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace uroce::cgroup {

/// The bytes that limits allow. Without a limit the numbers are UINT64_MAX, and `file` is empty.
struct Room {
  uint64_t smallest = UINT64_MAX;  ///< of the limits, in bytes
  uint64_t left = UINT64_MAX;      ///< bytes; the least that is left in a group, for all its processes together
  uint64_t limit = UINT64_MAX;     ///< of that group
  std::string file{};              ///< that holds this limit
};

class Groups {
 public:
  /// Reads the mounts of this process.
  Groups();
  /// `mountinfo`: the text of /proc/PID/mountinfo. Its folders are looked for below `root`.
  Groups(std::string root, const std::string& mountinfo);

  /// Reads the limits of memory as they are now, for the groups that the process is in now. Any thread.
  Room memory() const;
  /// Reads those of huge pages of `page_bytes`. Any thread.
  Room huge_pages(uint64_t page_bytes) const;
  /// For a process whose /proc/PID/cgroup reads `membership`.
  Room memory(const std::string& membership) const;
  Room huge_pages(const std::string& membership, uint64_t page_bytes) const;
  /// Whether huge pages count as memory, too: the mount option memory_hugetlb_accounting of version 2.
  bool huge_pages_are_memory() const { return huge_pages_are_memory_; }

 private:
  struct Mount {
    std::string controllers;  ///< of version 1, separated by commas; empty: version 2
    std::string group;        ///< that is mounted
    std::string folder;
  };
  /// The folders of the process's group and of those around it that are to be seen, for one controller.
  std::vector<std::string> folders(const std::string& membership, const std::string& controller, bool second) const;

  std::string root_;
  std::vector<Mount> mounts_{};
  bool huge_pages_are_memory_ = false;
};

}  // namespace uroce::cgroup
