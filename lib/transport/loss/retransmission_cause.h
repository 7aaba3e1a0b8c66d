// Why packets are sent again, and how many for each reason.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace uroce::transport {

enum class Cause : uint8_t {
  hole,     ///< a SACK or a later response showed that the packet is missing
  probe,    ///< the peer was silent for about two round trips
  timeout,  ///< the peer stayed silent after that
  nak,      ///< the peer asked for it (Go-Back-N, RNR)
};
inline constexpr std::size_t kCauses = 4;

/// Retransmitted packets by cause. The cause stays in force until another one is set.
struct RetransmissionCounts {
  Cause cause{};
  std::array<uint64_t, kCauses> packets{};

  void add() { ++packets[static_cast<std::size_t>(cause)]; }
  uint64_t of(Cause one) const { return packets[static_cast<std::size_t>(one)]; }

  template <class Archive>
  void persist(Archive& archive) {
    auto& [now, counted] = *this;
    archive("cause", now, Cause::hole, Cause::nak);
    archive("packets", counted);
  }
};

}  // namespace uroce::transport
