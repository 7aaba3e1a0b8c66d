// Super-frames: several UDP datagrams of one flow behind one Ethernet, IP and UDP header, as a packet socket with
// PACKET_VNET_HDR passes them (packet(7); struct virtio_net_hdr of linux/virtio_net.h, VIRTIO_NET_HDR_GSO_UDP_L4).
//
// The kernel, or whoever takes one apart, repeats the headers before each segment, counts the IPv4 id up by one, and
// sets lengths and checksums. The bytes behind the UDP header stay as they are.
//
// Functions of bytes alone: no socket, no state outside the objects, no allocation.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <optional>
#include <span>

namespace uroce::glue::kif {

/// Stands before each frame of such a socket: struct virtio_net_hdr, whose header is no C++. All fields are in the
/// host's byte order.
struct VnetHeader {
  static constexpr uint8_t kNeedsChecksum = 1;  ///< VIRTIO_NET_HDR_F_NEEDS_CSUM: the sum of the pseudo-header is there
  static constexpr uint8_t kUdpSegments = 5;    ///< VIRTIO_NET_HDR_GSO_UDP_L4, since Linux 6.2
  uint8_t flags = 0;
  uint8_t gso_type = 0;  ///< 0: one frame
  uint16_t hdr_len = 0;
  uint16_t gso_size = 0;  ///< bytes of a segment
  uint16_t csum_start = 0;
  uint16_t csum_offset = 0;
};
static_assert(sizeof(VnetHeader) == 10);

/// Datagrams of one super-frame: UDP_MAX_SEGMENTS of Linux up to 6.8; later kernels take more.
inline constexpr uint32_t kMaxSegments = 64;
/// Those of a received one, which a later kernel may have made.
inline constexpr uint32_t kMaxReceivedSegments = 128;
/// Bytes of a super-frame from the IP header on.
inline constexpr uint32_t kMaxIpBytes = 65535;
/// Ethernet with a tag, IPv6 and UDP headers.
inline constexpr uint32_t kMaxHeaderBytes = 14 + 4 + 40 + 8;

/// The largest number of `packets` at most that fills super-frames, of a long WRITE at that path MTU. With such a
/// window no short super-frame is left over.
constexpr uint32_t in_whole_super_frames(uint32_t packets, uint32_t path_mtu) {
  constexpr uint32_t kUdpHeaders = 40 + 8;
  constexpr uint32_t kAroundPayload = 12 + 16 + 4;  // BTH, RETH and ICRC
  const uint32_t each = std::min(kMaxSegments, (kMaxIpBytes - kUdpHeaders) / (path_mtu + kAroundPayload));
  return packets - packets % each;
}
static_assert(in_whole_super_frames(256, 1024) == 4 * 62);

/// The headers of a UDP datagram over IPv4 without options, or over IPv6 without extension headers.
struct UdpHeaders {
  uint8_t ip_version = 0;  ///< 4 or 6
  uint8_t length = 0;      ///< Ethernet to UDP, bytes: 42 or 62, and the tag
  uint8_t tag = 0;         ///< bytes of an 802.1Q tag: 0 or 4
};
/// Nothing for other frames, for fragments, and where `frame` ends before the UDP header does.
std::optional<UdpHeaders> udp_headers(std::span<const std::byte> frame);

/// Consecutive frames that may leave as one super-frame.
class FrameRun {
 public:
  /// Begins with a frame of `length` bytes whose headers, and maybe more, are `head`. `head` outlives the run.
  FrameRun(std::span<const std::byte> head, uint32_t length);

  /// Takes the frame if it continues the run: the same headers but for the IPv4 id, which is the next one, and no
  /// longer than the first. False, and nothing changes, otherwise.
  bool add(std::span<const std::byte> head, uint32_t length);

  uint32_t segments() const { return segments_; }
  /// Ethernet to UDP, bytes; 0 if nothing can be added.
  uint32_t header_bytes() const { return headers_.length; }
  /// Writes the headers of the whole, header_bytes() long, and returns what stands before them.
  VnetHeader finish(std::byte* headers) const;

 private:
  bool continues(const std::byte* head) const;

  std::span<const std::byte> head_;
  UdpHeaders headers_{};
  uint32_t segment_bytes_ = 0;  ///< behind the UDP header, of every segment but the last
  uint32_t payload_bytes_ = 0;  ///< of all segments
  uint32_t segments_ = 1;
  bool ended_ = true;
};

/// Why a received super-frame is dropped.
enum class SuperFault : uint8_t {
  kind,     ///< another kind of segmentation than UDP's
  headers,  ///< no plain UDP datagram, or shorter than its headers
  lengths,  ///< the headers' lengths are not those of the frame
  segment,  ///< a segment size of 0, or too small for a RoCE packet, or more segments than a super-frame may have
};

/// A received super-frame's parts.
struct Split {
  UdpHeaders headers{};
  uint32_t segment_bytes = 0;  ///< behind the UDP header, of every segment but the last; at most payload_bytes
  uint32_t payload_bytes = 0;  ///< of all segments
  uint32_t segments = 0;
  /// Bytes of segment `i` behind the UDP header.
  uint32_t bytes_of(uint32_t i) const { return i + 1 < segments ? segment_bytes : payload_bytes - i * segment_bytes; }
};

/// Checks a super-frame of `length` bytes that begins with `head`; nothing in it is trusted. The kernel keeps tags
/// apart from what it receives, so one with a tag is refused. `head` has at least kMaxHeaderBytes bytes unless the
/// whole frame is shorter.
std::expected<Split, SuperFault> split(const VnetHeader& vnet, std::span<const std::byte> head, uint32_t length);

/// The IPv4 id of segment `i`, whose bytes behind the UDP header are `segment`; `first` are those of segment 0.
///
/// It counts up, but for frames that the receiver's kernel has merged (GRO): before Linux 6.10 that merges frames of
/// one flow whose ids are not consecutive, those of two queue pairs for example. In uroce's frames the id is the PSN's
/// low half, so where that holds for the first one, each segment tells its own.
uint16_t segment_id(std::span<const std::byte> head, std::span<const std::byte> first,
                    std::span<const std::byte> segment, uint32_t i);

/// The headers of a super-frame's segments. The class computes once what all of them share.
class SegmentHeaders {
 public:
  /// `head` begins with the headers of the super-frame, as that of split().
  SegmentHeaders(std::span<const std::byte> head, const Split& split);
  /// Writes those of segment `i` at `out`; `id` is for IPv4. The UDP checksum is 0, which RoCE allows in IPv6 as well
  /// (IBTA vol. 1, A17.3.1).
  void write(std::byte* out, uint32_t i, uint16_t id) const;

 private:
  const Split split_;
  uint64_t sum_ = 0;  ///< wire::ipv4_sum() without id and checksum
  std::array<std::byte, kMaxHeaderBytes> bytes_{};
};

}  // namespace uroce::glue::kif
