// Pages that stay where they are while threads store into them and children of fork() look at them. busy.cc uses it.
#pragma once

#include <sys/wait.h>

#include <atomic>
#include <vector>

#include "ordinary.h"

namespace ordinary {

/// A slot is 8 bytes. Each has one owner, who counts it up; its low bits name the owner.
class Slots {
 public:
  static constexpr std::size_t kOwners = 4;  ///< the last stores nothing

  Slots(Byte* memory, std::size_t pages) : memory_(memory), count_(pages * kPage / sizeof(uint64_t)) {}

  /// An ordinary thread of the program: it knows what it has stored. Owners are 0 to kOwners - 2.
  void store(std::size_t owner, Random random, const std::atomic<bool>& stop) const {
    std::vector<uint64_t> stored(count_ / kOwners);
    while (!stop) {
      for (int burst = 0; burst < 256; ++burst) {
        const std::size_t i = random.below(stored.size());
        check(i * kOwners + owner, stored[i]);
        stored[i] = ((stored[i] >> 2) + 1) << 2 | owner;
        slot(i * kOwners + owner).store(stored[i]);
      }
    }
    for (std::size_t i = 0; i < stored.size(); ++i) check(i * kOwners + owner, stored[i]);
  }

  void check_unowned() const {
    for (std::size_t i = kOwners - 1; i < count_; i += kOwners) check(i, 0);
  }

  /// Makes children one after the other. Each checks that it has what the parent stored before fork(), and that nothing
  /// of it changes. Then it stores into all slots, of which the parent sees nothing.
  std::size_t make_children(Random random, const std::atomic<bool>& stop) const {
    std::size_t children = 0;
    for (std::vector<uint64_t> before(count_); !stop; ++children) {
      for (std::size_t i = 0; i < count_; ++i) before[i] = slot(i).load();
      const pid_t child = fork();
      if (child < 0) die("fork: %s", std::strerror(errno));
      if (child == 0) look_in_child(before);
      int status = 0;
      if (waitpid(child, &status, 0) != child || status != 0)
        die("fork: expected a child to end well, its status is %#x", static_cast<unsigned>(status));
      usleep(static_cast<useconds_t>(random.below(20000)));
    }
    return children;
  }

 private:
  std::atomic_ref<uint64_t> slot(std::size_t i) const {
    return std::atomic_ref(reinterpret_cast<uint64_t*>(memory_)[i]);
  }

  void check(std::size_t i, uint64_t wanted) const {
    if (const uint64_t is = slot(i).load(); is != wanted)
      die("store: slot %zu: expected %#lx, found %#lx", i, static_cast<unsigned long>(wanted),
          static_cast<unsigned long>(is));
  }

  // The copy of a busy process is not of one moment: slots are at least what they were before.
  [[noreturn]] void look_in_child(const std::vector<uint64_t>& before) const {
    std::vector<uint64_t> seen(count_);
    for (std::size_t i = 0; i < count_; ++i) {
      seen[i] = slot(i).load();
      if (seen[i] < before[i] || (seen[i] != 0 && (seen[i] & 3U) != i % kOwners)) {
        die("fork: slot %zu in a child: expected %#lx or more of the same owner, found %#lx", i,
            static_cast<unsigned long>(before[i]), static_cast<unsigned long>(seen[i]));
      }
    }
    usleep(1000);
    for (std::size_t i = 0; i < count_; ++i) {
      if (const uint64_t is = slot(i).load(); is != seen[i]) {
        die("fork: slot %zu in a child: expected %#lx still, found %#lx, which the parent has stored", i,
            static_cast<unsigned long>(seen[i]), static_cast<unsigned long>(is));
      }
    }
    for (std::size_t i = 0; i < count_; ++i) slot(i).store(~uint64_t{0});
    _exit(0);
  }

  Byte* memory_;
  std::size_t count_;
};

}  // namespace ordinary
