// The memory that control groups leave this process. A process that takes more is ended by the kernel, so the daemon
// refuses clients before. A part is kept for what the daemon needs to serve them, and half of that part for root.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <utility>

#include <uroce/error.h>

#include "cgroup/cgroup.h"

namespace uroce::service {

/// Any thread.
class MemoryRoom {
 public:
  using Clock = std::chrono::steady_clock;
  /// A reading is used for so long, unless what was taken since could use up what it found.
  static constexpr std::chrono::milliseconds kFresh{100};

  /// `read`: the room now. `machine`: bytes that it has.
  MemoryRoom(std::function<cgroup::Room()> read, uint64_t machine, std::function<Clock::time_point()> now = Clock::now);

  /// Memory that is about to be used. At its end it is used, and the next reading finds it.
  class Hold {
   public:
    Hold() = default;
    Hold(MemoryRoom& room, uint64_t bytes) : room_(&room), bytes_(bytes) {}
    Hold(Hold&& other) noexcept : room_(std::exchange(other.room_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
    Hold& operator=(Hold&& other) noexcept {
      std::swap(room_, other.room_);
      std::swap(bytes_, other.bytes_);
      return *this;
    }
    ~Hold();
    /// Takes the other's part over.
    void join(Hold other) {
      if (room_ == nullptr) std::swap(room_, other.room_);
      bytes_ += std::exchange(other.bytes_, 0);
    }

   private:
    MemoryRoom* room_ = nullptr;
    uint64_t bytes_ = 0;
  };

  /// Errors: ENOMEM naming the limit and where it is set.
  Result<Hold> take(uint64_t bytes, bool privileged);
  /// The memory that there is for this process: the machine's, or the limit. At most kFresh old.
  uint64_t memory();
  uint64_t machine() const { return machine_; }
  /// One line about the limit; empty where there is none.
  std::string about();

 private:
  bool add(uint64_t bytes, bool privileged);
  void read_again();
  void read_if_old();

  const std::function<cgroup::Room()> read_;
  const uint64_t machine_;
  const std::function<Clock::time_point()> now_;
  std::mutex mutex_;                               // guards reading, and file_
  std::string file_{};                             // of limit_
  std::atomic<Clock::time_point::rep> read_at_{};  // 0: not yet
  std::atomic<uint64_t> smallest_{UINT64_MAX};
  std::atomic<uint64_t> limit_{UINT64_MAX};
  std::atomic<uint64_t> left_{UINT64_MAX};
  std::atomic<uint64_t> used_since_{0};  // the last reading
  std::atomic<uint64_t> held_{0};
};

/// The room of this process.
MemoryRoom& memory_room();
/// Whether huge pages take of it, too (memory_hugetlb_accounting of cgroups(7)).
bool huge_pages_are_memory();

}  // namespace uroce::service
