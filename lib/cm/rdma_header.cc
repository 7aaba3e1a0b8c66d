#include "cm/rdma_header.h"

#include <cstring>

#include "base/bytes.h"

namespace uroce::cm {

namespace {

constexpr uint8_t kVersion = 0;

Gid load_address(const std::byte* p, uint8_t ip_version) {
  if (ip_version == 4) return Gid::from_ipv4(load_be32(p + 12));
  Gid gid;
  std::memcpy(gid.bytes.data(), p, gid.bytes.size());
  return gid;
}

// Here an IPv4 address has zeroes before it, not ::ffff: as in a GID.
void store_address(std::byte* p, const Gid& gid, uint8_t ip_version) {
  std::memcpy(p, gid.bytes.data(), gid.bytes.size());
  if (ip_version == 4) std::memset(p, 0, 12);
}

}  // namespace

std::optional<RdmaHeader> RdmaHeader::parse(std::span<const std::byte> private_data) {
  if (private_data.size() < kBytes) return std::nullopt;
  const std::byte* p = private_data.data();
  RdmaHeader header;
  header.ip_version = load8(p + 1) >> 4;
  if (load8(p) != kVersion || (header.ip_version != 4 && header.ip_version != 6)) return std::nullopt;
  header.source_port = load_be16(p + 2);
  header.source = load_address(p + 4, header.ip_version);
  header.destination = load_address(p + 20, header.ip_version);
  return header;
}

void RdmaHeader::store(std::byte* out) const {
  store8(out, kVersion);
  store8(out + 1, static_cast<uint8_t>(ip_version << 4));
  store_be16(out + 2, source_port);
  store_address(out + 4, source, ip_version);
  store_address(out + 20, destination, ip_version);
}

}  // namespace uroce::cm
