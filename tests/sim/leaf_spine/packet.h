// Packets on their way through the leaf-spine fabric: headers as the engine wrote them, and how much payload follows.
//
// Long payload is not carried, because nobody reads it: so 1,000 hosts with full queues fit into memory and caches.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "tests/sim/events.h"

namespace uroce::sim {

struct Packet {
  static constexpr std::size_t kHeadBytes = 208;

  Packet* next = nullptr;
  Picos arrives{0};       ///< at the far end of the link that it is on
  uint64_t flow_key = 0;  ///< of addresses and UDP source port, for ECMP
  uint32_t length = 0;    ///< Ethernet to ICRC, as on the wire
  uint32_t kept = 0;      ///< of those in `head`
  uint16_t to = 0;        ///< the host
  uint16_t ingress = 0;   ///< port at which it came into the switch that holds it
  bool marked = false;    ///< a switch has set CE
  std::array<std::byte, kHeadBytes> head;
};

/// First in, first out; owns nothing.
class PacketList {
 public:
  bool empty() const { return first_ == nullptr; }
  std::size_t size() const { return size_; }
  Packet& front() const { return *first_; }
  void push(Packet& packet) {
    packet.next = nullptr;
    (first_ == nullptr ? first_ : last_->next) = &packet;
    last_ = &packet;
    ++size_;
  }
  void push_front(Packet& packet) {
    packet.next = first_;
    if (first_ == nullptr) last_ = &packet;
    first_ = &packet;
    ++size_;
  }
  Packet& pop() {
    Packet& packet = *first_;
    first_ = packet.next;
    --size_;
    return packet;
  }

 private:
  Packet* first_ = nullptr;
  Packet* last_ = nullptr;
  std::size_t size_ = 0;
};

/// The packet that came back last goes first, because caches have it.
class PacketPool {
 public:
  Packet& take() {
    if (free_.empty()) grow();
    return free_.pop();
  }
  void give_back(Packet& packet) { free_.push_front(packet); }
  std::size_t made() const { return blocks_.size() * kBlock; }
  /// Packets that are somewhere in the fabric.
  std::size_t out() const { return made() - free_.size(); }

 private:
  static constexpr std::size_t kBlock = 4096;

  void grow() {
    Packet* const block = blocks_.emplace_back(std::make_unique_for_overwrite<Packet[]>(kBlock)).get();
    for (std::size_t i = kBlock; i-- != 0;) free_.push_front(block[i]);
  }

  std::vector<std::unique_ptr<Packet[]>> blocks_;
  PacketList free_;
};

}  // namespace uroce::sim
