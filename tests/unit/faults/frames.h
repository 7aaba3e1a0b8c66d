// Frames of RoCE for tests of fault rules, from the text form of packets.
#pragma once

#include <gtest/gtest.h>

#include <string_view>
#include <vector>

#include "tests/support/encode.h"
#include "tests/support/packet_text.h"
#include "tests/support/pcap_file.h"
#include "wire/packet.h"

namespace uroce::test {

inline constexpr uint32_t kHere = 0xc0000201, kPeer = 0xc0000202;  // 192.0.2.1, 192.0.2.2

inline wire::Route route_between(const Gid& from, const Gid& to) {
  wire::Route route;
  route.src_mac = {{2, 0, 0, 0, 0, 1}};
  route.dst_mac = {{2, 0, 0, 0, 0, 2}};
  route.sgid = from;
  route.dgid = to;
  route.traffic_class = 2;
  return route;
}

/// A frame that the peer sends here; payload bytes count up.
inline Bytes frame(std::string_view line,
                   const wire::Route& route = route_between(Gid::from_ipv4(kPeer), Gid::from_ipv4(kHere))) {
  const auto text = from_text(line);
  EXPECT_TRUE(text) << line;
  Bytes payload(text->payload_length);
  for (std::size_t i = 0; i < payload.size(); ++i) payload[i] = static_cast<std::byte>(i);
  Bytes out(512 + payload.size());
  out.resize(encode(out, text->packet, route, payload));
  return out;
}

}  // namespace uroce::test
