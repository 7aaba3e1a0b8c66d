// The messages of the connection manager as values, with their wire layout as offsets (IBTA vol. 1, 12.6 and 12.11;
// the common header: 13.4.2).
//
// load() and store() touch only the kMadBytes - kMadHeaderBytes bytes after the header. The private data of a loaded
// message is its whole field, a view into the bytes passed to load().
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <uroce/types.h>

#include "base/bytes.h"

namespace uroce::cm {

inline constexpr std::size_t kMadBytes = 256;
using Mad = std::array<std::byte, kMadBytes>;
inline constexpr std::size_t kMadHeaderBytes = 24;

/// The most private data in each message, in bytes (IBTA vol. 1, 12.6).
inline constexpr std::size_t kReqPrivate = 92, kRepPrivate = 196, kRtuPrivate = 224, kRejPrivate = 148,
                             kMraPrivate = 222, kDreqPrivate = 220, kDrepPrivate = 224, kSidrReqPrivate = 216,
                             kSidrRepPrivate = 136, kRejInfo = 72;

enum class CmAttribute : uint16_t {
  req = 0x10,
  mra = 0x11,
  rej = 0x12,
  rep = 0x13,
  rtu = 0x14,
  dreq = 0x15,
  drep = 0x16,
  sidr_req = 0x17,
  sidr_rep = 0x18,
};

/// The fields of the common header that differ between CM messages.
struct MadHeader {
  CmAttribute attribute{};
  uint64_t transaction_id = 0;
  uint32_t modifier = 0;  ///< ECE options in REQ and REP, as in Linux; else 0
};
/// nullopt unless `mad` is a CM MAD of kMadBytes bytes, class version 2, method Send.
std::optional<MadHeader> parse_header(std::span<const std::byte> mad);
void store_header(std::byte* mad, const MadHeader& header);

/// Transport service type of a REQ, 2 bits; 3: the extended transport field has the type.
enum class CmTransport : uint8_t { rc = 0, uc = 1, rd = 2, extended = 3 };
/// ReqMad::extended_transport of XRC (annex A14).
inline constexpr uint8_t kExtendedXrc = 1;

/// The message that an MRA or REJ answers, 2 bits.
enum class CmAnswered : uint8_t { req = 0, rep = 1, other = 2 };

struct ReqMad {
  static constexpr CmAttribute kAttribute = CmAttribute::req;
  uint32_t local_id = 0;
  uint32_t ece_vendor = 0;  ///< 24 bits in reserved bytes, as in Linux
  uint64_t service_id = 0;
  uint64_t ca_guid = 0;
  uint32_t qkey = 0;
  uint32_t qpn = 0;
  uint8_t responder_resources = 0;
  uint8_t initiator_depth = 0;
  uint8_t remote_cm_timeout = 0;
  CmTransport transport{};
  bool flow_control = false;
  uint32_t psn = 0;
  uint8_t local_cm_timeout = 0;
  uint8_t retry_count = 0;
  uint16_t pkey = 0;
  uint8_t mtu = 0;  ///< 4 bits; 1 to 5 are values of Mtu
  bool rdc_exists = false;
  uint8_t rnr_retry_count = 0;
  uint8_t max_cm_retries = 0;
  bool srq = false;
  uint8_t extended_transport = 0;
  uint16_t local_lid = 0xffff;  ///< permissive: RoCE has none
  uint16_t remote_lid = 0xffff;
  Gid local_gid{};
  Gid remote_gid{};
  uint32_t flow_label = 0;
  uint8_t packet_rate = 0;
  uint8_t traffic_class = 0;
  uint8_t hop_limit = 0;
  uint8_t sl = 0;
  bool subnet_local = false;
  uint8_t ack_timeout = 0;
  bool has_alternate = false;  ///< load() only: the REQ has an alternate path; store() never writes one
  std::span<const std::byte> private_data{};

  static ReqMad load(const std::byte* body);
  void store(std::byte* body) const;
};

struct MraMad {
  static constexpr CmAttribute kAttribute = CmAttribute::mra;
  uint32_t local_id = 0;
  uint32_t remote_id = 0;
  CmAnswered answered{};
  uint8_t service_timeout = 0;
  std::span<const std::byte> private_data{};

  static MraMad load(const std::byte* body);
  void store(std::byte* body) const;
};

struct RejMad {
  static constexpr CmAttribute kAttribute = CmAttribute::rej;
  uint32_t local_id = 0;
  uint32_t remote_id = 0;
  CmAnswered answered{};
  uint16_t reason = 0;
  std::span<const std::byte> info{};  ///< at most kRejInfo bytes, even if its length field claims more
  std::span<const std::byte> private_data{};

  static RejMad load(const std::byte* body);
  void store(std::byte* body) const;
};

struct RepMad {
  static constexpr CmAttribute kAttribute = CmAttribute::rep;
  uint32_t local_id = 0;
  uint32_t remote_id = 0;
  uint32_t qkey = 0;
  uint32_t qpn = 0;
  uint32_t ee_context = 0;  ///< 24 bits; with XRC the target queue pair is here
  uint32_t ece_vendor = 0;
  uint32_t psn = 0;
  uint8_t responder_resources = 0;
  uint8_t initiator_depth = 0;
  uint8_t ack_delay = 0;
  uint8_t failover = 0;  ///< 0 accepted, 1 not supported, 2 rejected
  bool flow_control = false;
  uint8_t rnr_retry_count = 0;
  bool srq = false;
  uint64_t ca_guid = 0;
  std::span<const std::byte> private_data{};

  static RepMad load(const std::byte* body);
  void store(std::byte* body) const;
};

struct RtuMad {
  static constexpr CmAttribute kAttribute = CmAttribute::rtu;
  uint32_t local_id = 0;
  uint32_t remote_id = 0;
  std::span<const std::byte> private_data{};

  static RtuMad load(const std::byte* body);
  void store(std::byte* body) const;
};

struct DreqMad {
  static constexpr CmAttribute kAttribute = CmAttribute::dreq;
  uint32_t local_id = 0;
  uint32_t remote_id = 0;
  uint32_t remote_qpn = 0;
  std::span<const std::byte> private_data{};

  static DreqMad load(const std::byte* body);
  void store(std::byte* body) const;
};

struct DrepMad {
  static constexpr CmAttribute kAttribute = CmAttribute::drep;
  uint32_t local_id = 0;
  uint32_t remote_id = 0;
  std::span<const std::byte> private_data{};

  static DrepMad load(const std::byte* body);
  void store(std::byte* body) const;
};

struct SidrReqMad {
  static constexpr CmAttribute kAttribute = CmAttribute::sidr_req;
  uint32_t request_id = 0;
  uint16_t pkey = 0;
  uint64_t service_id = 0;
  std::span<const std::byte> private_data{};

  static SidrReqMad load(const std::byte* body);
  void store(std::byte* body) const;
};

struct SidrRepMad {
  static constexpr CmAttribute kAttribute = CmAttribute::sidr_rep;
  uint32_t request_id = 0;
  uint8_t status = 0;
  uint32_t qpn = 0;
  uint64_t service_id = 0;
  uint32_t qkey = 0;
  std::span<const std::byte> info{};
  std::span<const std::byte> private_data{};

  static SidrRepMad load(const std::byte* body);
  void store(std::byte* body) const;
};

/// Private data as a value of its own.
inline std::vector<std::byte> copy_of(std::span<const std::byte> bytes) { return {bytes.begin(), bytes.end()}; }

template <class Message>
Mad make_mad(uint64_t transaction_id, const Message& message, uint32_t modifier = 0) {
  Mad mad{};
  store_header(mad.data(), {Message::kAttribute, transaction_id, modifier});
  message.store(mad.data() + kMadHeaderBytes);
  return mad;
}

}  // namespace uroce::cm
