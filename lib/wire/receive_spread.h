// How a port with several queues spreads received RoCE frames over them (receive-side scaling), and the UDP source port
// that brings a peer's frames to one of the queues. The port hashes no queue pair number (IBTA vol. 1, A17.3.1 lets a
// sender choose the port per flow), so without that choice most frames come to another engine than their own.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <uroce/flow.h>
#include <uroce/types.h>

namespace uroce::wire {

/// Changes never, so any thread may read it.
class ReceiveSpread {
 public:
  /// Tables of cards have at most so many entries.
  static constexpr std::size_t kMaxTable = 4096;

  /// `key`: of the Toeplitz hash. `queues`: the card's table, from which the hash's low bits choose the queue; a power
  /// of two. `ipv4`, `ipv6`: whether the ports of UDP over that version are hashed besides the addresses. No value
  /// where no table of a card looks like that.
  static std::optional<ReceiveSpread> make(std::span<const uint8_t, RxHash::kKeyBytes> key,
                                           std::vector<uint16_t> queues, bool ipv4, bool ipv6);

  /// The queue that gets RoCE frames from `source` to `destination`. nullopt where their ports are not hashed.
  std::optional<uint16_t> queue_of(const Gid& source, const Gid& destination, uint16_t source_port) const;
  /// A UDP source port, with both highest bits set, whose frames get to `queue`: one near `wish`, so that flows with
  /// different wishes stay different. nullopt where there is none. At most 2^14 steps of a few instructions.
  std::optional<uint16_t> source_port(uint16_t queue, const Gid& source, const Gid& destination, uint16_t wish) const;

 private:
  static constexpr unsigned kFreeBits = 14;  ///< of a source port
  /// Each of them adds a constant to the hash, which is linear.
  using PortBits = std::array<uint32_t, kFreeBits>;

  ReceiveSpread(std::span<const uint8_t, RxHash::kKeyBytes> key, std::vector<uint16_t> queues, bool ipv4, bool ipv6);
  bool covers(const Gid& source, const Gid& destination) const;
  uint32_t hash(const Gid& source, const Gid& destination, uint16_t source_port) const;
  PortBits port_bits(const Gid& of_that_version) const;
  uint16_t at(uint32_t hash) const { return queues_[hash & (queues_.size() - 1)]; }

  std::array<uint8_t, RxHash::kKeyBytes> key_{};
  std::vector<uint16_t> queues_;
  bool ipv4_;
  bool ipv6_;
  PortBits bits4_;
  PortBits bits6_;
};

}  // namespace uroce::wire
