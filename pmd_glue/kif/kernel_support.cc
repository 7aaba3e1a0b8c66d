#include "pmd_glue/kif/kernel_support.h"

#include <linux/if_packet.h>
#include <net/if.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <string>
#include <utility>

#include "base/bytes.h"
#include "pmd_glue/kif/super_frame.h"
#include "wire/ethernet.h"

namespace uroce::glue::kif {

namespace {

constexpr std::size_t kUdp = wire::kEthernetBytes + wire::kIpv4Bytes;
constexpr std::size_t kFrame = kUdp + wire::kUdpBytes + 1;

/// A datagram of one byte for an Ethernet address that the loopback interface does not have.
std::array<std::byte, kFrame> unwanted_frame() {
  constexpr uint16_t kDiscard = 9;
  constexpr uint32_t kLocalhost = 0x7f000001;
  std::array<std::byte, kFrame> out{};
  out[0] = std::byte{2};  // locally administered
  std::byte* const ip = &out[wire::kEthernetBytes];
  store_be16(ip - 2, wire::kEthertypeIpv4);
  store_be16(ip, 0x4500);
  store_be16(ip + 2, kFrame - wire::kEthernetBytes);
  store_be16(ip + 8, 0x0100 | wire::kProtocolUdp);
  store_be32(ip + 12, kLocalhost);
  store_be32(ip + 16, kLocalhost);
  store_be16(&out[kUdp], kDiscard);
  store_be16(&out[kUdp + 2], kDiscard);
  store_be16(&out[kUdp + 4], kFrame - kUdp);
  return out;
}

/// 0, or an errno value.
int send_behind(VnetHeader vnet, int fd) {
  auto frame = unwanted_frame();
  std::array<iovec, 2> parts{iovec{&vnet, sizeof vnet}, iovec{frame.data(), frame.size()}};
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  return sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? errno : 0;
}

/// A socket on the loopback interface that receives nothing, or a negative number.
int loopback_socket() {
  const int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
  if (fd < 0) return fd;
  const int on = 1;
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_ifindex = static_cast<int>(if_nametoindex("lo"));
  if (address.sll_ifindex != 0 && setsockopt(fd, SOL_PACKET, PACKET_VNET_HDR, &on, sizeof on) == 0 &&
      bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0)
    return fd;
  close(fd);
  return -1;
}

}  // namespace

std::optional<bool> takes_super_frames(int fd) {
  if (send_behind({}, fd) != 0) return std::nullopt;
  // The segment size is longer than the payload, so there is nothing to cut up. The kernel looks at the kind first.
  const VnetHeader segmented{.flags = VnetHeader::kNeedsChecksum,
                             .gso_type = VnetHeader::kUdpSegments,
                             .hdr_len = kUdp + wire::kUdpBytes,
                             .gso_size = 1000,
                             .csum_start = kUdp,
                             .csum_offset = 6};
  switch (send_behind(segmented, fd)) {
    case 0: return true;
    case EINVAL: return false;
    default: return std::nullopt;
  }
}

bool release_has_super_frames(std::string_view release) {
  int major = 0, minor = 0;
  if (std::sscanf(std::string(release).c_str(), "%d.%d", &major, &minor) != 2) return true;
  return std::pair(major, minor) >= std::pair(6, 2);
}

bool kernel_knows_super_frames() {
  std::optional<bool> answer;
  if (const int fd = loopback_socket(); fd >= 0) {
    answer = takes_super_frames(fd);
    close(fd);
  }
  if (answer) return *answer;
  utsname system{};
  return uname(&system) != 0 || release_has_super_frames(system.release);
}

}  // namespace uroce::glue::kif
