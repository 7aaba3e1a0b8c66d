#include "wire/flow_icrc.h"

#include <cassert>
#include <cstring>

#include "wire/ethernet.h"
#include "wire/icrc.h"

namespace uroce::wire {
namespace {

constexpr std::size_t kId = 4;  // in the IPv4 header

/// The register after each byte and `zeros` zeros, from register 0.
consteval std::array<uint32_t, 256> after_zeros(std::size_t zeros) {
  std::array<uint32_t, 256> out{};
  for (uint32_t byte = 0; byte < out.size(); ++byte) {
    out[byte] = byte;
    for (std::size_t bit = 0; bit < 8 * (zeros + 1); ++bit) {
      out[byte] = out[byte] >> 1 ^ ((out[byte] & 1) != 0 ? 0xedb88320 : 0);
    }
  }
  return out;
}
constexpr std::size_t kBehindId = kIpv4Bytes - (kId + 2) + kUdpBytes + FlowIcrc::kSharedOfBth;

}  // namespace

constinit const std::array<std::array<uint32_t, 256>, 2> FlowIcrc::kOfId = {after_zeros(kBehindId + 1),
                                                                            after_zeros(kBehindId)};

void FlowIcrc::learn(const std::byte* l3, uint8_t ip_version) {
  std::array<std::byte, kIpv6Bytes + kUdpBytes + kSharedOfBth> shared;
  const std::size_t bytes = (ip_version == 4 ? kIpv4Bytes : kIpv6Bytes) + kUdpBytes + kSharedOfBth;
  std::memcpy(shared.data(), l3, bytes);
  if (ip_version == 4) std::memset(shared.data() + kId, 0, 2);
  register_ = ~icrc_of({shared.data(), bytes}, ip_version);
}

}  // namespace uroce::wire
