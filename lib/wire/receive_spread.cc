#include "wire/receive_spread.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "base/bytes.h"
#include "wire/ethernet.h"
#include "wire/headers.h"
#include "wire/rx_hash.h"

namespace uroce::wire {

std::optional<ReceiveSpread> ReceiveSpread::make(std::span<const uint8_t, RxHash::kKeyBytes> key,
                                                 std::vector<uint16_t> queues, bool ipv4, bool ipv6) {
  if (!std::has_single_bit(queues.size()) || queues.size() > kMaxTable) return std::nullopt;
  return ReceiveSpread(key, std::move(queues), ipv4, ipv6);
}

ReceiveSpread::ReceiveSpread(std::span<const uint8_t, RxHash::kKeyBytes> key, std::vector<uint16_t> queues, bool ipv4,
                             bool ipv6)
    : queues_(std::move(queues)), ipv4_(ipv4), ipv6_(ipv6) {
  std::ranges::copy(key, key_.begin());
  bits4_ = port_bits(Gid::from_ipv4(0));
  bits6_ = port_bits(Gid{});
}

bool ReceiveSpread::covers(const Gid& source, const Gid& destination) const {
  const bool ipv4 = source.is_ipv4();
  return ipv4 == destination.is_ipv4() && (ipv4 ? ipv4_ : ipv6_);
}

uint32_t ReceiveSpread::hash(const Gid& source, const Gid& destination, uint16_t source_port) const {
  std::array<std::byte, kMaxHashInput> input;
  std::size_t size = 0;
  const auto add = [&](const Gid& address) {
    const std::size_t skipped = address.is_ipv4() ? 12 : 0;
    std::memcpy(&input[size], &address.bytes[skipped], address.bytes.size() - skipped);
    size += address.bytes.size() - skipped;
  };
  add(source);
  add(destination);
  store_be16(&input[size], source_port);
  store_be16(&input[size + 2], kUdpPort);
  return toeplitz(key_, std::span(input).first(size + 4));
}

ReceiveSpread::PortBits ReceiveSpread::port_bits(const Gid& of_that_version) const {
  const uint32_t without = hash(of_that_version, of_that_version, 0);
  PortBits bits;
  for (unsigned i = 0; i < kFreeBits; ++i) {
    bits[i] = without ^ hash(of_that_version, of_that_version, static_cast<uint16_t>(1u << i));
  }
  return bits;
}

std::optional<uint16_t> ReceiveSpread::queue_of(const Gid& source, const Gid& destination, uint16_t source_port) const {
  if (!covers(source, destination)) return std::nullopt;
  return at(hash(source, destination, source_port));
}

// Ports follow each other in the order of a Gray code: each differs from the one before in one bit.
std::optional<uint16_t> ReceiveSpread::source_port(uint16_t queue, const Gid& source, const Gid& destination,
                                                   uint16_t wish) const {
  if (!covers(source, destination)) return std::nullopt;
  uint16_t port = wish | kLeastSourcePort;
  uint32_t hash_of_port = hash(source, destination, port);
  const PortBits& bits = source.is_ipv4() ? bits4_ : bits6_;
  for (uint32_t step = 1; at(hash_of_port) != queue; ++step) {
    if (step == 1u << kFreeBits) return std::nullopt;
    const auto bit = static_cast<unsigned>(std::countr_zero(step));
    port ^= static_cast<uint16_t>(1u << bit);
    hash_of_port ^= bits[bit];
  }
  return port;
}

}  // namespace uroce::wire
