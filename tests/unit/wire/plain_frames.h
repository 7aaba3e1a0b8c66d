// Frames without RoCE, piece by piece: ports(ipv4(ethernet(0x0800)), 1234, 5678).
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include <uroce/types.h>

namespace uroce::wire {

using FrameBytes = std::vector<std::byte>;

inline constexpr EthAddr kMine{{2, 0, 0, 0, 0, 1}};
inline constexpr EthAddr kTheirs{{2, 0, 0, 0, 0, 2}};
inline const Gid kSource4 = Gid::from_ipv4(0x01010101);
inline const Gid kDestination4 = Gid::from_ipv4(0x02020202);
inline const Gid kSource6{{0xa0, 0xa1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
inline const Gid kDestination6{{0xb0, 0xb1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2}};

inline void add(FrameBytes& to, std::initializer_list<int> bytes) {
  for (const int byte : bytes) to.push_back(static_cast<std::byte>(byte));
}
inline void add16(FrameBytes& to, uint16_t value) { add(to, {value >> 8, value & 0xff}); }

inline FrameBytes ethernet(uint16_t type, std::initializer_list<uint16_t> tags = {}, uint16_t tpid = 0x8100) {
  FrameBytes frame;
  for (const uint8_t byte : kMine.bytes) frame.push_back(std::byte{byte});
  for (const uint8_t byte : kTheirs.bytes) frame.push_back(std::byte{byte});
  for (const uint16_t tag : tags) {
    add16(frame, tpid);
    add16(frame, tag);
  }
  add16(frame, type);
  return frame;
}

struct Ip {
  uint8_t protocol = 17;
  uint16_t fragment = 0x4000;  // DF
  uint32_t option_words = 0;
};

inline FrameBytes ipv4(FrameBytes frame, Ip ip = {}) {
  const auto words = static_cast<int>(5 + ip.option_words);
  add(frame, {0x40 | words, 0x28, 0, 60, 0, 0, ip.fragment >> 8, ip.fragment & 0xff, 63, ip.protocol, 0, 0});
  add(frame, {1, 1, 1, 1, 2, 2, 2, 2});
  frame.resize(frame.size() + std::size_t{ip.option_words} * 4);
  return frame;
}

inline FrameBytes ipv6(FrameBytes frame, uint8_t next = 17) {
  add(frame, {0x61, 0x28, 0x34, 0x56, 0, 20, next, 62});
  for (const uint8_t byte : kSource6.bytes) frame.push_back(std::byte{byte});
  for (const uint8_t byte : kDestination6.bytes) frame.push_back(std::byte{byte});
  return frame;
}

inline FrameBytes ports(FrameBytes frame, uint16_t source, uint16_t destination) {
  add16(frame, source);
  add16(frame, destination);
  frame.resize(frame.size() + 16);
  return frame;
}

}  // namespace uroce::wire
