#include "transport/datagram/address_handles.h"

#include <algorithm>
#include <new>

namespace uroce::transport {

AddressHandleTable::Slot* AddressHandleTable::slot_of(AddressHandleId id) const {
  Chunk* chunk = owned_[(id & kSlotMask) / kChunk].get();
  return chunk != nullptr ? &(*chunk)[id % kChunk] : nullptr;
}

std::optional<AddressHandleId> AddressHandleTable::add(const AddressHandle& handle) {
  uint32_t index = fresh_;
  // Used slots come first, so that an application which makes a handle per message needs few chunks.
  if (!free_.empty()) {
    index = free_.front();
  } else if (fresh_ == kCapacity) {
    return std::nullopt;
  }
  if (!make_chunk(index)) return std::nullopt;
  if (free_.empty()) {
    ++fresh_;
  } else {
    free_.pop_front();
  }
  Slot& slot = *slot_of(index);
  slot.handle = handle;
  AddressHandleId id = 0;
  while (id == 0) id = ++slot.generation * kCapacity | index;
  slot.id.store(id, std::memory_order_release);
  ++used_;
  return id;
}

bool AddressHandleTable::make_chunk(uint32_t index) {
  auto& chunk = owned_[index / kChunk];
  if (chunk != nullptr) return true;
  chunk.reset(new (std::nothrow) Chunk);
  if (chunk == nullptr) return false;
  chunks_[index / kChunk].store(chunk.get(), std::memory_order_release);
  return true;
}

bool AddressHandleTable::add(const AddressHandle& handle, AddressHandleId id) {
  const uint32_t index = id & kSlotMask;
  for (; fresh_ <= index; ++fresh_) {
    if (!make_chunk(fresh_)) return false;
    free_.push_back(fresh_);
  }
  const auto found = std::ranges::find(free_, index);
  if (id == 0 || found == free_.end()) return false;
  free_.erase(found);
  Slot& slot = *slot_of(id);
  slot.handle = handle;
  slot.generation = id / kCapacity;
  slot.id.store(id, std::memory_order_release);
  ++used_;
  return true;
}

std::optional<AddressHandle> AddressHandleTable::look_up(AddressHandleId id) const {
  const Slot* slot = slot_of(id);
  if (id == 0 || slot == nullptr || slot->id.load(std::memory_order_relaxed) != id) return std::nullopt;
  return slot->handle;
}

bool AddressHandleTable::remove(AddressHandleId id) {
  Slot* slot = slot_of(id);
  if (id == 0 || slot == nullptr || slot->id.load(std::memory_order_relaxed) != id) return false;
  slot->id.store(0, std::memory_order_release);
  slot->removed = id;
  --used_;
  return true;
}

void AddressHandleTable::redirect(const NextHop& next_hop) {
  for (uint32_t index = 0; index < fresh_; ++index) {
    Slot& slot = (*owned_[index / kChunk])[index % kChunk];
    if (slot.id.load(std::memory_order_relaxed) == 0) continue;
    if (const auto mac = next_hop(slot.handle.dgid)) slot.handle.dst_mac.store(*mac);
  }
}

void AddressHandleTable::retire(AddressHandleId id) {
  Slot* slot = slot_of(id);
  if (id == 0 || slot == nullptr || slot->removed != id) return;
  slot->removed = 0;
  free_.push_back(id & kSlotMask);
}

}  // namespace uroce::transport
