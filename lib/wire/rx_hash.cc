#include "wire/rx_hash.h"

#include <array>
#include <cassert>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "base/bytes.h"
#include "wire/ethernet.h"

namespace uroce::wire {
namespace {

constexpr RxHashFields kKnown = RxHashFields::from_bits(kRxHashFields);
static_assert(RxHash::kKeyBytes * 8 >= kMaxHashInput * 8 + 31, "the last bit of the input has 32 bits of the key");

/// The chosen fields of a frame, without gaps.
class HashInput {
 public:
  HashInput(const RxHash& hash, const FlowKey& key) : hash_(hash), key_(key) {}
  void take(RxHashField field, std::size_t at, std::size_t bytes) {
    if (!hash_.fields.has(field)) return;
    std::memcpy(&bytes_[size_], &key_.bytes[at], bytes);
    size_ += bytes;
  }
  std::span<const std::byte> bytes() const { return std::span(bytes_).first(size_); }

 private:
  const RxHash& hash_;
  const FlowKey& key_;
  std::array<std::byte, kMaxHashInput> bytes_{};
  std::size_t size_ = 0;
};

// A datagram's first fragment has ports, and the others have not.
bool is_fragment(const FlowKey& key) {
  return load8(&key.bytes[FlowKey::kIpVersion]) == 4 &&
         (load_be32(&key.bytes[FlowKey::kFlowLabel]) & FlowKey::kMoreFragments) != 0;
}

}  // namespace

uint32_t toeplitz(std::span<const uint8_t, RxHash::kKeyBytes> key, std::span<const std::byte> input) {
  assert(input.size() <= kMaxHashInput);
  uint32_t hash = 0;
  uint64_t window = 0;  // its low 40 bits are those of the key from bit 8 * i on
  for (std::size_t byte = 0; byte < 5; ++byte) window = window << 8 | key[byte];
  for (std::size_t i = 0; i < input.size(); ++i) {
    const uint32_t bits = load8(&input[i]);
    for (unsigned bit = 0; bit < 8; ++bit) {
      hash ^= static_cast<uint32_t>(window >> (8 - bit)) & (0u - (bits >> (7 - bit) & 1u));
    }
    if (i + 5 < key.size()) window = window << 8 | key[i + 5];
  }
  return hash;
}

uint32_t rx_hash(const RxHash& hash, const FlowKey& key) {
  using enum RxHashField;
  HashInput input(hash, key);
  const uint8_t version = load8(&key.bytes[FlowKey::kIpVersion]);
  if (version == 4) {
    input.take(ipv4_source, FlowKey::kIpSource + 12, 4);
    input.take(ipv4_destination, FlowKey::kIpDestination + 12, 4);
  } else if (version == 6) {
    input.take(ipv6_source, FlowKey::kIpSource, 16);
    input.take(ipv6_destination, FlowKey::kIpDestination, 16);
  }
  const uint8_t protocol = is_fragment(key) ? uint8_t{0} : load8(&key.bytes[FlowKey::kPortsOf]);
  if (protocol == kProtocolTcp) {
    input.take(tcp_source_port, FlowKey::kSourcePort, 2);
    input.take(tcp_destination_port, FlowKey::kDestinationPort, 2);
  } else if (protocol == kProtocolUdp) {
    input.take(udp_source_port, FlowKey::kSourcePort, 2);
    input.take(udp_destination_port, FlowKey::kDestinationPort, 2);
  }
  return toeplitz(hash.key, input.bytes());
}

Result<void> check_rx_hash(const RxHash& hash) {
  const RxHashFields unknown = hash.fields.without(kKnown);
  if (unknown.empty()) return {};
  return fail(EINVAL, fmt::format("cannot create receive rule: RxHash::fields has unknown bits {:#x}; the known bits "
                                  "are {:#x}",
                                  unknown.bits(), kKnown.bits()));
}

}  // namespace uroce::wire
