#include "wire/flow_icrc.h"

#include <cstring>

#include "wire/crc/polynomial.h"
#include "wire/ethernet.h"
#include "wire/icrc.h"

namespace uroce::wire {
namespace {

constexpr std::size_t kId = 4;  // in the IPv4 header

constexpr std::size_t kBehindId = kIpv4Bytes - (kId + 2) + kUdpBytes + FlowIcrc::kSharedOfBth;

}  // namespace

constinit const std::array<std::array<uint32_t, 256>, 2> FlowIcrc::kOfId = {crc::registers_after(kBehindId + 1),
                                                                            crc::registers_after(kBehindId)};

void FlowIcrc::learn(const std::byte* l3, uint8_t ip_version) {
  std::array<std::byte, kIpv6Bytes + kUdpBytes + kSharedOfBth> shared;
  const std::size_t bytes = (ip_version == 4 ? kIpv4Bytes : kIpv6Bytes) + kUdpBytes + kSharedOfBth;
  std::memcpy(shared.data(), l3, bytes);
  if (ip_version == 4) std::memset(shared.data() + kId, 0, 2);
  register_ = ~icrc_of({shared.data(), bytes}, ip_version);
}

}  // namespace uroce::wire
