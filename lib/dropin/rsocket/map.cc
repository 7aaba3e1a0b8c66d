// Buffers that the peer writes to directly (riomap(), riounmap(), riowrite()).
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>

#include "dropin/common/report.h"
#include "dropin/rsocket/stream.h"

namespace uroce::dropin::rsocket {

namespace {

constexpr std::size_t kFirstPiece = 2048;
constexpr std::size_t kLongestPiece = 65536;

}  // namespace

off_t Stream::map(void* buffer, std::size_t length, int protection, off_t offset) {
  if (id_->pd == nullptr || (protection & ~(PROT_WRITE | PROT_NONE)) != 0) return minus_one(EINVAL);
  const std::lock_guard lock(map_mutex_);
  Mapped made;
  int access = IBV_ACCESS_LOCAL_WRITE;
  if ((protection & PROT_WRITE) != 0) {
    const auto free = std::ranges::find(mapping_used_, false);
    if (free == mapping_used_.end()) return minus_one(ENOMEM);  // the peer's table is full or missing
    made.index = static_cast<int>(free - mapping_used_.begin());
    made.advertised = false;
    access |= IBV_ACCESS_REMOTE_WRITE;
  }
  made.mr = ibv_reg_mr(id_->pd, buffer, length, access);
  if (made.mr == nullptr) return -1;
  made.offset = offset == -1 ? static_cast<off_t>(reinterpret_cast<uintptr_t>(buffer)) : offset;
  if (made.index >= 0) {
    mapping_used_[static_cast<std::size_t>(made.index)] = true;
    unsent_mappings_ = true;
  }
  mapped_.push_back(made);
  return made.offset;
}

int Stream::unmap(void* buffer, std::size_t length) {
  const std::lock_guard lock(map_mutex_);
  const auto found = std::ranges::find_if(
      mapped_, [&](const Mapped& each) { return each.mr->addr == buffer && each.mr->length == length; });
  if (found == mapped_.end()) return minus_one(EINVAL);
  ibv_dereg_mr(found->mr);
  if (found->index >= 0) mapping_used_[static_cast<std::size_t>(found->index)] = false;
  mapped_.erase(found);
  return 0;
}

int Stream::send_mappings(int flags) {
  const std::lock_guard lock(map_mutex_);
  for (Mapped& each : mapped_) {
    if (each.advertised) continue;
    if (await_room(flags) != 0) return -1;
    wire::Mapping entry{
        static_cast<uint64_t>(each.offset),
        {reinterpret_cast<uint64_t>(each.mr->addr), each.mr->rkey, static_cast<uint32_t>(each.mr->length)}};
    if (swaps_) entry = wire::swapped(entry);
    const iovec bytes{&entry, sizeof(entry)};
    IoCursor from({&bytes, 1});
    const auto index = static_cast<uint32_t>(each.index);
    const uint64_t there = remote_mappings_ + index * sizeof(entry);
    ++sent_;
    if (send_piece(from, sizeof(entry), wire::Op::mapping, index, there, remote_targets_.key) != 0) return -1;
    each.advertised = true;
  }
  unsent_mappings_ = false;
  return 0;
}

/// The peer may write the table at any time: read each entry once.
std::optional<wire::Mapping> Stream::find_mapping(uint64_t offset) const {
  const auto* entries = reinterpret_cast<const volatile wire::Mapping*>(targets() + wire::kTargets);
  for (uint32_t i = 0; i < sizes_.mappings; ++i) {
    const wire::Mapping entry{entries[i].offset,
                              {entries[i].memory.address, entries[i].memory.key, entries[i].memory.length}};
    if (offset >= entry.offset && offset - entry.offset < entry.memory.length) return entry;
  }
  return std::nullopt;
}

std::size_t Stream::write_at(IoCursor from, off_t offset, int flags) {
  const std::lock_guard lock(send_mutex_);
  const std::size_t total = from.left();
  if (unsent_mappings_ && send_mappings(flags) != 0) return static_cast<std::size_t>(-1);
  std::size_t step = kFirstPiece;
  int result = 0;
  while (from.left() > 0) {
    const uint64_t at = static_cast<uint64_t>(offset) + (total - from.left());
    const auto there = find_mapping(at);
    if (!there) break;
    result = await_room(flags);
    if (result != 0) break;
    const uint64_t into = at - there->offset;
    const std::size_t size =
        std::min<std::size_t>({step, from.left(), out_free_.load(), std::size_t{there->memory.length} - into});
    step = std::min(step * 2, kLongestPiece);
    const auto value = static_cast<uint32_t>(size);
    result = send_piece(from, size, wire::Op::write, value, there->memory.address + into, there->memory.key);
    if (result != 0) break;
  }
  const std::size_t sent = total - from.left();
  return result != 0 && sent == 0 ? static_cast<std::size_t>(-1) : sent;
}

}  // namespace uroce::dropin::rsocket
