#include "dropin/rsocket/mappings.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>

#include "dropin/common/report.h"

namespace uroce::dropin::rsocket {

off_t Mappings::map(ibv_pd* pd, void* buffer, std::size_t length, int protection, off_t offset) {
  if (pd == nullptr || (protection & ~(PROT_WRITE | PROT_NONE)) != 0) return minus_one(EINVAL);
  const std::lock_guard lock(mutex_);
  Mapped made;
  int access = IBV_ACCESS_LOCAL_WRITE;
  if ((protection & PROT_WRITE) != 0) {
    const auto free = std::ranges::find(used_, false);
    if (free == used_.end()) return minus_one(ENOMEM);  // the peer's table is full or missing
    made.index = static_cast<int>(free - used_.begin());
    made.advertised = false;
    access |= IBV_ACCESS_REMOTE_WRITE;
  }
  made.mr = ibv_reg_mr(pd, buffer, length, access);
  if (made.mr == nullptr) return -1;
  made.offset = offset == -1 ? static_cast<off_t>(reinterpret_cast<uintptr_t>(buffer)) : offset;
  if (made.index >= 0) {
    used_[static_cast<std::size_t>(made.index)] = true;
    unsent_ = true;
  }
  mapped_.push_back(made);
  return made.offset;
}

int Mappings::unmap(void* buffer, std::size_t length) {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find_if(
      mapped_, [&](const Mapped& each) { return each.mr->addr == buffer && each.mr->length == length; });
  if (found == mapped_.end()) return minus_one(EINVAL);
  ibv_dereg_mr(found->mr);
  if (found->index >= 0) used_[static_cast<std::size_t>(found->index)] = false;
  mapped_.erase(found);
  return 0;
}

void Mappings::clear() {
  for (const Mapped& each : mapped_) ibv_dereg_mr(each.mr);
  mapped_.clear();
}

wire::Mapping Mappings::entry_of(const Mapped& mapped) {
  return {static_cast<uint64_t>(mapped.offset),
          {reinterpret_cast<uint64_t>(mapped.mr->addr), mapped.mr->rkey, static_cast<uint32_t>(mapped.mr->length)}};
}

}  // namespace uroce::dropin::rsocket
