// The packets that responders expect. A NAK acknowledges all packets before its own (IBTA vol. 1, 9.7.5.2), so that one
// in a responder's place has to wait until the responder has them. Only responses tell, because other rules, the
// network and the responder itself may lose requests.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>

#include "base/psn.h"
#include "faults/held_frames.h"
#include "wire/packet.h"

namespace uroce::faults {

/// A NAK with its headers, from Ethernet to the ICRC.
inline constexpr std::size_t kLongestNak = 96;

/// One responder of a reliable connection, as the frames show it.
class Responder {
 public:
  enum class Turn : uint8_t {
    now,    ///< it expects this packet
    later,  ///< it may lack some before
    never,  ///< it has this packet, or a NAK waits already, or nothing is known
  };
  Turn turn_of(Psn psn) const;
  /// The NAK waits until the responder expects the packet.
  void wait(Psn psn, uint32_t rule, std::span<const std::byte> nak);
  /// Whether the packet is lost once more, because its NAK waits. After some times it no longer does: the packet then
  /// goes on, so that a requester with few retries survives.
  bool loses(Psn psn);
  /// The rule of the NAK that waits.
  uint32_t rule() const { return rule_; }

 private:
  friend class Responders;
  void note_request(const wire::Packet& packet, uint32_t qpn);
  std::span<const std::byte> note_expected(Psn psn);

  uint32_t qpn_ = 0;
  Psn expected_{};
  Psn furthest_{};      // at least that of the last request
  bool known_ = false;  // expected_ is
  bool waits_ = false;
  uint8_t losses_ = 0;
  uint32_t rule_ = 0;
  Psn psn_{};  // of the packet that the NAK is for
  std::size_t length_ = 0;
  std::array<std::byte, kLongestNak> nak_{};
};

class Responders {
 public:
  static constexpr std::size_t kMost = 1024;

  /// The responder of a request to a reliable connection. The first request that is seen of a connection counts as the
  /// expected one, as long as there was room for all connections. `asker`: the queue pair that the responses go to.
  Responder& of_request(Way way, const wire::Packet& request, uint32_t asker);
  /// A response passes. Returns the NAK whose turn has come, until the next call; empty for none.
  std::span<const std::byte> note_response(Way way, const wire::Packet& response);

 private:
  /// The goal of the responses.
  struct Key {
    Way way{};
    uint32_t asker = 0;
    Gid host{};
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    std::size_t operator()(const Key& key) const;
  };

  std::unordered_map<Key, Responder, Hash> all_;
  bool had_room_ = true;
};

/// Answers go the other way.
constexpr Way back(Way way) { return way == Way::rx ? Way::tx : way == Way::tx ? Way::rx : Way::loopback; }

}  // namespace uroce::faults
