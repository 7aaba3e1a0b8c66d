#include "transport/datagram/address_handles.h"

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
  auto& chunk = owned_[index / kChunk];
  if (chunk == nullptr) {
    chunk.reset(new (std::nothrow) Chunk);
    if (chunk == nullptr) return std::nullopt;
    chunks_[index / kChunk].store(chunk.get(), std::memory_order_release);
  }
  if (free_.empty()) {
    ++fresh_;
  } else {
    free_.pop_front();
  }
  Slot& slot = (*chunk)[index % kChunk];
  slot.handle = handle;
  AddressHandleId id = 0;
  while (id == 0) id = ++slot.generation * kCapacity | index;
  slot.id.store(id, std::memory_order_release);
  ++used_;
  return id;
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
