// Address handles: the destinations of datagrams, by number. Control writes them; engines read them without a lock.
//
// A number includes a generation, so that a stale number finds nothing. A removed handle keeps its slot until every
// engine has been between two bursts; then control retires it.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <optional>

#include <uroce/types.h>

#include "memory/region_table.h"
#include "wire/packet.h"

namespace uroce::transport {

using AddressHandleId = uint32_t;

/// The Ethernet address that now leads to a peer, where it may have changed; nullopt for all other peers.
using NextHop = std::function<std::optional<EthAddr>(const Gid& dgid)>;

/// An Ethernet address that control may change while engines read it.
class LiveMac {
 public:
  LiveMac() = default;
  explicit LiveMac(const EthAddr& mac) { store(mac); }
  LiveMac(const LiveMac& other) : value_(other.value_.load(std::memory_order_relaxed)) {}
  LiveMac& operator=(const LiveMac& other) {
    value_.store(other.value_.load(std::memory_order_relaxed), std::memory_order_relaxed);
    return *this;
  }
  void store(const EthAddr& mac) {
    uint64_t value = 0;
    std::memcpy(&value, mac.bytes.data(), mac.bytes.size());
    value_.store(value, std::memory_order_relaxed);
  }
  EthAddr load() const {
    const uint64_t value = value_.load(std::memory_order_relaxed);
    EthAddr mac;
    std::memcpy(mac.bytes.data(), &value, mac.bytes.size());
    return mac;
  }

 private:
  std::atomic<uint64_t> value_{0};
};

/// Headers towards one destination.
struct AddressHandle {
  memory::PdId pd = 0;
  wire::RouteTemplate route{};
  LiveMac dst_mac{};  ///< used in place of the one in `route`
  Gid dgid{};
  uint32_t flow_label = 0;  ///< 20 bits; 0: the UDP source port follows from the QPNs
  bool loopback = false;    ///< the destination is this device
  bool multicast = false;
};

/// A table without handles of its own asks this (core/tape.h). find() is as AddressHandleTable's.
class HandleLookups {
 public:
  virtual ~HandleLookups() = default;
  virtual const AddressHandle* find(AddressHandleId id, memory::PdId pd) = 0;
};

class AddressHandleTable {
 public:
  /// A table without handles, for engines: each look-up asks `elsewhere`, which outlives it.
  explicit AddressHandleTable(HandleLookups& elsewhere) : elsewhere_(&elsewhere) {}
  /// The most handles, including removed ones that are not yet retired.
  static constexpr uint32_t kCapacity = 1u << 16;

  AddressHandleTable() = default;
  AddressHandleTable(const AddressHandleTable&) = delete;
  AddressHandleTable& operator=(const AddressHandleTable&) = delete;

  // --- One control thread -----------------------------------------------------------------------------------

  /// The handle's number, never 0; nullopt when all are in use or no memory is left.
  std::optional<AddressHandleId> add(const AddressHandle& handle);
  /// The same with the number that it had in another table. False: it is in use or 0, or no memory is left.
  bool add(const AddressHandle& handle, AddressHandleId id);
  /// As add() took it, with its present address; nullopt where there is none.
  std::optional<AddressHandle> look_up(AddressHandleId id) const;
  /// From now on find() does not find it. Its slot is not reused until retire(). False: there is no such handle.
  bool remove(AddressHandleId id);
  /// Frees the slot of a removed handle, once no engine can be using it any more.
  void retire(AddressHandleId id);
  /// See Engine::redirect(). A frame that is being built may still go the old way.
  void redirect(const NextHop& next_hop);
  /// Handles added and not removed.
  uint32_t used() const { return used_; }

  // --- Engines ----------------------------------------------------------------------------------------------

  /// Valid until the engine's burst ends. Nullptr: there is none, or it belongs to another protection domain.
  const AddressHandle* find(AddressHandleId id, memory::PdId pd) const {
    const Chunk* chunk = chunks_[(id & kSlotMask) / kChunk].load(std::memory_order_acquire);
    if (id == 0 || chunk == nullptr) [[unlikely]]
      return elsewhere_ != nullptr ? elsewhere_->find(id, pd) : nullptr;
    const Slot& slot = (*chunk)[id % kChunk];
    if (slot.id.load(std::memory_order_acquire) != id || slot.handle.pd != pd) return nullptr;
    return &slot.handle;
  }

 private:
  static constexpr uint32_t kSlotMask = kCapacity - 1;
  static constexpr uint32_t kChunk = 256;
  struct Slot {
    std::atomic<AddressHandleId> id{0};  // 0: none. Stored last on add, first on remove.
    AddressHandle handle;
    // Control thread only.
    uint32_t generation = 0;
    AddressHandleId removed = 0;  // awaits retire()
  };
  using Chunk = std::array<Slot, kChunk>;

  Slot* slot_of(AddressHandleId id) const;
  /// False: no memory is left.
  bool make_chunk(uint32_t index);

  std::array<std::atomic<Chunk*>, kCapacity / kChunk> chunks_{};
  std::array<std::unique_ptr<Chunk>, kCapacity / kChunk> owned_;
  HandleLookups* elsewhere_ = nullptr;
  std::deque<uint32_t> free_;  // slots that were used before, oldest first
  uint32_t fresh_ = 0;         // slots never used begin here
  uint32_t used_ = 0;
};

}  // namespace uroce::transport
