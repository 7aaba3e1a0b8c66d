#include "service/memory_room.h"

#include <algorithm>
#include <cerrno>

#include <unistd.h>

#include <fmt/format.h>

namespace uroce::service {
namespace {

/// The part of a limit that clients do not get, and its most. It covers what is not asked for beforehand: events that
/// nobody reads, buffers of a port, replies, and other processes of the group between two readings.
constexpr uint64_t kKept = 8;
constexpr uint64_t kMostKept = uint64_t{256} << 20;

uint64_t kept(uint64_t limit, bool privileged) {
  const uint64_t all = std::min(limit / kKept, kMostKept);
  return privileged ? all / 2 : all;
}

uint64_t memory_of_machine() {
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long size = sysconf(_SC_PAGESIZE);
  return pages > 0 && size > 0 ? static_cast<uint64_t>(pages) * static_cast<uint64_t>(size) : uint64_t{1} << 30;
}

const cgroup::Groups& groups() {
  static const cgroup::Groups kGroups;
  return kGroups;
}

}  // namespace

MemoryRoom::MemoryRoom(std::function<cgroup::Room()> read, uint64_t machine, std::function<Clock::time_point()> now)
    : read_(std::move(read)), machine_(machine), now_(std::move(now)) {}

MemoryRoom::Hold::~Hold() {
  if (room_ == nullptr) return;
  room_->used_since_.fetch_add(bytes_, std::memory_order_relaxed);
  room_->held_.fetch_sub(bytes_, std::memory_order_relaxed);
}

bool MemoryRoom::add(uint64_t bytes, bool privileged) {
  const uint64_t found = left_.load(std::memory_order_relaxed);
  const uint64_t others = used_since_.load(std::memory_order_relaxed) +
                          held_.fetch_add(bytes, std::memory_order_relaxed) +
                          kept(limit_.load(std::memory_order_relaxed), privileged);
  if (others <= found && bytes <= found - others) return true;
  held_.fetch_sub(bytes, std::memory_order_relaxed);
  return false;
}

Result<MemoryRoom::Hold> MemoryRoom::take(uint64_t bytes, bool privileged) {
  if (bytes == 0) return Hold();
  read_if_old();
  if (left_.load(std::memory_order_relaxed) == UINT64_MAX) return Hold();
  if (add(bytes, privileged)) return Hold(*this, bytes);
  // Much of what was taken may have been given back meanwhile.
  const std::scoped_lock lock(mutex_);
  read_again();
  if (add(bytes, privileged)) return Hold(*this, bytes);
  const uint64_t limit = limit_.load(std::memory_order_relaxed);
  return fail(ENOMEM, fmt::format("the daemon has no memory for {} bytes more: its control group allows {} and has {} "
                                  "left, of which {} are for the daemon itself; release objects, or raise the limit "
                                  "({}; MemoryMax of systemd)",
                                  bytes, limit, left_.load(std::memory_order_relaxed), kept(limit, privileged), file_));
}

void MemoryRoom::read_again() {
  const cgroup::Room room = read_();
  smallest_.store(room.smallest, std::memory_order_relaxed);
  limit_.store(room.limit, std::memory_order_relaxed);
  left_.store(room.left, std::memory_order_relaxed);
  used_since_.store(0, std::memory_order_relaxed);
  file_ = room.file;
  read_at_.store(now_().time_since_epoch().count(), std::memory_order_relaxed);
}

void MemoryRoom::read_if_old() {
  const auto last = read_at_.load(std::memory_order_relaxed);
  if (last != 0 && now_() - Clock::time_point(Clock::duration(last)) < kFresh) return;
  std::unique_lock lock(mutex_, std::defer_lock);
  if (last == 0) {
    lock.lock();
  } else if (!lock.try_lock()) {
    return;  // another thread reads it
  }
  read_again();
}

uint64_t MemoryRoom::memory() {
  read_if_old();
  return std::min(machine_, smallest_.load(std::memory_order_relaxed));
}

std::string MemoryRoom::about() {
  read_if_old();
  const std::scoped_lock lock(mutex_);
  const uint64_t limit = limit_.load(std::memory_order_relaxed);
  if (limit == UINT64_MAX) return {};
  return fmt::format("the control group allows {} MiB of memory, of which {} are left ({})", limit >> 20,
                     left_.load(std::memory_order_relaxed) >> 20, file_);
}

MemoryRoom& memory_room() {
  static MemoryRoom room([&groups = groups()] { return groups.memory(); }, memory_of_machine());
  return room;
}

bool huge_pages_are_memory() { return groups().huge_pages_are_memory(); }

}  // namespace uroce::service
