// The kernel's tables against broken messages of the kernel. The input is a program: messages that are nearly right,
// time steps, calls. For any input addresses are hosts', and sources are ours.
#include <linux/netlink.h>
#include <linux/rtnetlink.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "net/kernel_tables.h"
#include "tests/fuzz/input.h"

namespace {

using namespace uroce;
using namespace uroce::test;

constexpr uint32_t kInterface = 2;

Gid gid_from(Input& input) {
  const auto last = static_cast<uint8_t>(input.below(8));
  if (input.below(2) == 0) return Gid::from_ipv4(0x0a000000u | last);
  Gid gid;
  gid.bytes = {0x20, 0x01};
  gid.bytes[15] = last;
  return gid;
}

class World {
 public:
  void step(Input& input) {
    const auto dgid = gid_from(input);
    switch (input.below(7)) {
      case 0: tables_.request(dgid, now_); break;
      case 1: tables_.on_overrun(now_); break;
      case 2: now_ += Nanos(std::chrono::milliseconds(input.take<uint16_t>())); break;
      case 3: tables_.poll(now_); break;
      case 4: tables_.on_answers(message(input), now_); break;
      default: tables_.on_news(message(input), now_); break;
    }
    if (const auto hop = tables_.next_hop(dgid); hop && !tables_.ours(*hop)) {
      (void)tables_.lookup(*hop);
      if (const auto source = tables_.source_for(dgid)) require(tables_.ours(*source), "the source is not ours");
    }
    for (const Gid& gid : tables_.addresses())
      require(!net::is_multicast(gid) && !net::is_unspecified(gid), "an address that no host has");
    (void)tables_.take_changes();
    (void)tables_.take_link();
    tables_.poll(now_);
  }

 private:
  /// Some attributes, of which one may be broken, behind a header of any type.
  std::vector<std::byte> message(Input& input) {
    static constexpr std::array<uint16_t, 13> kTypes = {
        RTM_NEWADDR, RTM_DELADDR,    RTM_NEWNEIGH, RTM_DELNEIGH, RTM_NEWLINK, RTM_NEWROUTE, RTM_DELROUTE,
        RTM_NEWRULE, RTM_NEWNEXTHOP, NLMSG_DONE,   NLMSG_ERROR,  NLMSG_NOOP,  0xffff};
    std::vector<std::byte> out;
    const auto put = [&](auto value) {
      const auto* at = reinterpret_cast<const std::byte*>(&value);
      out.insert(out.end(), at, at + sizeof value);
    };
    const uint16_t type = kTypes[input.below(kTypes.size())];
    put(uint32_t{0});
    put(type);
    put(static_cast<uint16_t>(input.below(8) == 0 ? NLM_F_DUMP_INTR : 0));
    put(asked_ - std::min(asked_, input.below(3)));
    put(uint32_t{0});
    const bool short_header = type == RTM_NEWADDR || type == RTM_DELADDR;
    const auto family = static_cast<uint8_t>(input.below(4) == 0   ? input.take<uint8_t>()
                                             : input.below(2) == 0 ? 2
                                                                   : 10);
    put(family), put(static_cast<uint8_t>(input.below(140))), put(static_cast<uint8_t>(input.below(2)));
    put(static_cast<uint8_t>(input.below(4)));
    put(input.below(8) == 0 ? input.take<uint32_t>() : kInterface);
    if (!short_header) put(input.take<uint16_t>()), put(static_cast<uint16_t>(input.below(12) << 8));
    for (uint32_t left = input.below(6); left > 0; --left) {
      const Gid gid = gid_from(input);
      const std::size_t size = input.below(8) == 0 ? input.below(40) : family == 2 ? 4 : 16;
      put(static_cast<uint16_t>(4 + size + (input.below(16) == 0 ? input.below(64) : 0)));
      put(static_cast<uint16_t>(input.below(24)));
      for (std::size_t i = 0; i < size; ++i) {
        out.push_back(size <= 16 ? static_cast<std::byte>(gid.bytes[16 - size + i]) : std::byte{2});
      }
      out.resize((out.size() + 3) / 4 * 4);
    }
    const auto length = static_cast<uint32_t>(
        out.size() - std::min<std::size_t>(input.below(8) == 0 ? input.below(40) : 0, out.size()));
    std::memcpy(out.data(), &length, sizeof length);
    return out;
  }

  uint32_t asked_ = 0;
  Nanos now_{0};
  net::KernelTables tables_{
      {.index = kInterface, .name = "eth0", .mac = {{2, 0, 0, 0, 0, 1}}},
      {.ask = [this](std::span<const std::byte> request) { std::memcpy(&asked_, request.data() + 8, sizeof asked_); },
       .probe = [](const Gid&) { return 0; }}};
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  Input input(std::span(data, size));
  World world;
  while (!input.empty()) world.step(input);
  return 0;
}
