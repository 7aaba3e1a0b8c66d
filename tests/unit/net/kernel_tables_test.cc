#include "net/kernel_tables.h"
#include "addresses.h"

#include <gtest/gtest.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <string_view>

namespace uroce::net {
namespace {

constexpr uint32_t kInterface = 2;
constexpr EthAddr kOurMac{{2, 0, 0, 0, 0, 1}}, kMac{{2, 0, 0, 0, 0, 2}}, kOtherMac{{2, 0, 0, 0, 0, 3}};
using Bytes = std::vector<std::byte>;

using std::chrono::seconds;

/// A message of the kernel, laid out by hand.
class Message {
 public:
  Message(uint16_t type, uint32_t sequence, uint16_t flags = 0) {
    put(uint32_t{0}), put(type), put(flags), put(sequence), put(uint32_t{0});
  }
  template <class T>
  Message& put(T value) {
    const auto* at = reinterpret_cast<const std::byte*>(&value);
    bytes_.insert(bytes_.end(), at, at + sizeof value);
    return *this;
  }
  Message& attribute(uint16_t type, std::span<const std::byte> value) {
    put(static_cast<uint16_t>(4 + value.size())).put(type);
    bytes_.insert(bytes_.end(), value.begin(), value.end());
    bytes_.resize((bytes_.size() + 3) / 4 * 4);
    return *this;
  }
  Message& attribute(uint16_t type, uint32_t value) { return attribute(type, std::as_bytes(std::span(&value, 1))); }
  Message& attribute(uint16_t type, const EthAddr& mac) { return attribute(type, std::as_bytes(std::span(mac.bytes))); }
  Message& attribute(uint16_t type, const Gid& address) {
    const auto all = std::as_bytes(std::span(address.bytes));
    return attribute(type, address.is_ipv4() ? all.last(4) : all);
  }
  Bytes bytes() {
    const auto length = static_cast<uint32_t>(bytes_.size());
    std::memcpy(bytes_.data(), &length, sizeof length);
    return bytes_;
  }

 private:
  Bytes bytes_;
};

uint8_t family(const Gid& address) { return address.is_ipv4() ? AF_INET : AF_INET6; }

Bytes address_message(uint16_t type, std::string_view text, uint32_t flags = 0, uint32_t sequence = 0,
                      uint32_t interface = kInterface) {
  const auto address = parse_interface_address(text).value();
  return Message(type, sequence)
      .put(family(address.gid))
      .put(address.prefix)
      .put(uint16_t{0})
      .put(interface)
      .attribute(IFA_ADDRESS, address.gid)
      .attribute(IFA_FLAGS, flags)
      .bytes();
}

Bytes neighbour_message(uint16_t type, std::string_view text, uint16_t state, const EthAddr& mac,
                        uint32_t sequence = 0) {
  Message message(type, sequence);
  message.put(uint32_t{family(gid(text))}).put(kInterface).put(state).put(uint16_t{0});
  message.attribute(NDA_DST, gid(text));
  if ((state & (NUD_FAILED | NUD_INCOMPLETE)) == 0) message.attribute(NDA_LLADDR, mac);
  return message.bytes();
}

Bytes done(uint32_t sequence, uint16_t flags = 0) { return Message(NLMSG_DONE, sequence, flags).put(0).bytes(); }
Bytes refusal(uint32_t sequence, int error) {
  return Message(NLMSG_ERROR, sequence).put(-error).put(uint32_t{16}).put(uint32_t{0}).bytes();
}

/// The kernel at the other end: what was asked, and whom it was made to look for.
struct Kernel {
  struct Asked {
    uint16_t type = 0;
    uint32_t sequence = 0;
    Bytes bytes{};
  };
  KernelTables tables{{.index = kInterface, .name = "eth0", .mac = kOurMac},
                      {.ask = [this](std::span<const std::byte> request) { take(request); },
                       .probe =
                           [this](const Gid& hop) {
                             probed.push_back(to_text(hop));
                             return probe_error;
                           }}};
  std::vector<Asked> asked;
  std::vector<std::string> probed;
  int probe_error = 0;
  Nanos now{0};

  void take(std::span<const std::byte> request) {
    Asked one{.bytes = {request.begin(), request.end()}};
    std::memcpy(&one.type, request.data() + 4, sizeof one.type);
    std::memcpy(&one.sequence, request.data() + 8, sizeof one.sequence);
    asked.push_back(std::move(one));
  }
  void answer(const Bytes& bytes) { tables.on_answers(bytes, now); }
  void news(const Bytes& bytes) { tables.on_news(bytes, now); }
  uint32_t sequence() const { return asked.back().sequence; }

  /// Reads both tables: the addresses are these, and there is no neighbour.
  void begin(std::initializer_list<std::string_view> addresses) {
    tables.read_all(now);
    for (const auto text : addresses) answer(address_message(RTM_NEWADDR, text, 0, sequence()));
    answer(done(sequence()));
    answer(done(sequence()));
    ASSERT_TRUE(tables.complete());
  }
  void answer_route(std::string_view to, std::string_view gateway = "", std::string_view source = "",
                    uint8_t type = RTN_UNICAST, uint32_t interface = kInterface) {
    ASSERT_EQ(asked.back().type, RTM_GETROUTE);
    Message message(RTM_NEWROUTE, sequence());
    message.put(uint32_t{family(gid(to))}).put(uint8_t{0}).put(uint8_t{0}).put(uint8_t{0}).put(type).put(uint32_t{0});
    message.attribute(RTA_DST, gid(to)).attribute(RTA_OIF, interface);
    if (!gateway.empty()) message.attribute(RTA_GATEWAY, gid(gateway));
    if (!source.empty()) message.attribute(RTA_PREFSRC, gid(source));
    answer(message.bytes());
  }
  /// A destination whose next hop is known.
  void know(std::string_view text, const EthAddr& mac = kMac) {
    news(neighbour_message(RTM_NEWNEIGH, text, NUD_REACHABLE, mac));
    tables.request(gid(text), now);
    answer_route(text);
  }
  std::string hop(std::string_view text) const {
    const auto found = tables.next_hop(gid(text));
    return found ? to_text(*found) : found.error().text;
  }
  std::vector<std::string> addresses() const {
    std::vector<std::string> out;
    for (const Gid& one : tables.addresses()) out.push_back(to_text(one));
    return out;
  }
};

using Texts = std::vector<std::string>;

Bytes bytes_of_hex(std::string_view hex) {
  Bytes out;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
    out.push_back(static_cast<std::byte>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
  return out;
}

// As Linux 6.18 sent them.
TEST(Rtnetlink, ReadsWhatLinuxSends) {
  std::vector<KernelMessage> messages;
  const auto take = [&](const KernelMessage& message) { messages.push_back(message); };
  for (const auto* hex :
       {"4c0000001400020007000000c17200000218800002000000080001000a050001080002000a050001070003006430000008000800800000"
        "00"
        "14000600ffffffffffffffff1d2827001d282700",
        "4c0000001c00020007000000c1720000020000000200000004000001080001000a0500020a000200b6572ba28dbd000008000400010000"
        "00"
        "140003003a3000003a300000ed26000000000000",
        "9c0000001800000007000000c17200000a808000fe0200010000000008000f00fe0000001400010020010db80005000000000000000000"
        "0214000200000000000000000000000000000000001400070020010db80005000000000000000000010800060000010000080004000200"
        "000024000c0002000000123300000000000000000000000000000000000000000000000000000500140000000000",
        "4c0000000200000007000000c17200009bffffff380000001a00010007000000000000000a8000000000000000000000140001002001"
        "0db80099000000000000000000010800040002000000",
        "140000000300020007000000c172000000000000"}) {
    EXPECT_TRUE(parse_rtnetlink(bytes_of_hex(hex), take)) << hex;
  }
  ASSERT_EQ(messages.size(), 5u);
  const auto& address = std::get<AddressNews>(messages[0].news);
  EXPECT_EQ(address.interface, 2u);
  EXPECT_EQ(address.address, (InterfaceAddress{gid("10.5.0.1"), 24}));
  EXPECT_EQ(address.flags, uint32_t{IFA_F_PERMANENT});
  const auto& neighbour = std::get<NeighbourNews>(messages[1].news);
  EXPECT_EQ(to_text(neighbour.gid), "10.5.0.2");
  EXPECT_EQ(neighbour.state, NUD_STALE);
  EXPECT_EQ(to_text(neighbour.mac.value()), "b6:57:2b:a2:8d:bd");
  const auto& route = std::get<RouteNews>(messages[2].news);
  EXPECT_EQ(route.type, RTN_UNICAST);
  EXPECT_EQ(route.interface, 2u);
  EXPECT_EQ(to_text(route.source.value()), "2001:db8:5::1");
  EXPECT_FALSE(route.gateway);
  EXPECT_EQ(std::get<AnswerEnd>(messages[3].news).error, ENETUNREACH);
  EXPECT_EQ(std::get<AnswerEnd>(messages[4].news).error, 0);
  EXPECT_EQ(messages[4].sequence, 7u);
}

TEST(Rtnetlink, CutMessagesAreMalformed) {
  const Bytes whole = neighbour_message(RTM_NEWNEIGH, "192.0.2.2", NUD_REACHABLE, kMac);
  const auto ignore = [](const KernelMessage&) {};
  EXPECT_TRUE(parse_rtnetlink(whole, ignore));
  for (std::size_t size = 1; size < whole.size(); ++size) {
    Bytes cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_FALSE(parse_rtnetlink(cut, ignore)) << size << " bytes of a longer message";
    const auto length = static_cast<uint32_t>(size);
    if (size >= 16) std::memcpy(cut.data(), &length, sizeof length);
    if (size >= 16 && size < 36) {
      EXPECT_FALSE(parse_rtnetlink(cut, ignore)) << size << " bytes";
    }
  }
  Bytes two = whole;
  two.insert(two.end(), whole.begin(), whole.end());
  EXPECT_TRUE(parse_rtnetlink(two, ignore));
  two[whole.size() + 3] = std::byte{0x80};  // of 2 GiB
  EXPECT_FALSE(parse_rtnetlink(two, ignore));
  Bytes long_attribute = whole;
  long_attribute[28] = std::byte{200};
  EXPECT_FALSE(parse_rtnetlink(long_attribute, ignore));
  Bytes short_attribute = whole;
  short_attribute[28] = std::byte{3};
  EXPECT_FALSE(parse_rtnetlink(short_attribute, ignore));
}

TEST(KernelTables, HasTheInterfacesAddressesInOrder) {
  Kernel kernel;
  kernel.begin({"fe80::1/64", "2001:db8::1/64", "192.0.2.9/24", "192.0.2.1/24"});
  EXPECT_EQ(kernel.addresses(), (Texts{"192.0.2.9", "192.0.2.1", "2001:db8::1", "fe80::1"}));
}

TEST(KernelTables, FollowsAddresses) {
  Kernel kernel;
  kernel.begin({"192.0.2.1/24"});
  const uint64_t before = kernel.tables.generation();
  kernel.news(address_message(RTM_NEWADDR, "192.0.2.7/24", 0, 0, 99));  // another interface's
  kernel.news(address_message(RTM_NEWADDR, "192.0.2.1/24"));            // again: new lifetimes
  EXPECT_EQ(kernel.tables.generation(), before);
  kernel.news(address_message(RTM_NEWADDR, "2001:db8::1/64", IFA_F_TENTATIVE));
  EXPECT_EQ(kernel.addresses(), Texts{"192.0.2.1"});
  kernel.news(address_message(RTM_NEWADDR, "2001:db8::1/64"));
  EXPECT_EQ(kernel.addresses(), (Texts{"192.0.2.1", "2001:db8::1"}));
  EXPECT_NE(kernel.tables.generation(), before);
  kernel.news(address_message(RTM_NEWADDR, "2001:db8::1/64", IFA_F_DADFAILED | IFA_F_TENTATIVE));
  kernel.news(address_message(RTM_DELADDR, "192.0.2.1/24"));
  EXPECT_EQ(kernel.addresses(), Texts{});
  kernel.news(address_message(RTM_NEWADDR, "2001:db8::2/64", IFA_F_TENTATIVE | IFA_F_OPTIMISTIC));
  EXPECT_EQ(kernel.addresses(), Texts{"2001:db8::2"});
}

TEST(KernelTables, WhatAReadingDoesNotMentionIsGone) {
  Kernel kernel;
  kernel.begin({"192.0.2.1/24", "192.0.2.2/24"});
  kernel.know("192.0.2.9");
  kernel.tables.on_overrun(kernel.now);
  kernel.tables.on_overrun(kernel.now);  // meanwhile once more
  kernel.answer(address_message(RTM_NEWADDR, "192.0.2.2/24", 0, kernel.sequence()));
  // The kernel says that its table changed meanwhile: the reading begins again.
  const uint32_t first = kernel.sequence();
  kernel.answer(done(first, NLM_F_DUMP_INTR));
  EXPECT_NE(kernel.sequence(), first);
  EXPECT_EQ(kernel.addresses().size(), 2u);
  for (int i = 0; i < 2; ++i) {
    kernel.answer(address_message(RTM_NEWADDR, "192.0.2.2/24", 0, kernel.sequence()));
    kernel.answer(done(kernel.sequence()));
    EXPECT_EQ(kernel.addresses(), Texts{"192.0.2.2"});
    kernel.answer(done(kernel.sequence()));
  }
  EXPECT_TRUE(kernel.tables.complete());
  EXPECT_FALSE(kernel.tables.lookup(gid("192.0.2.9")));
  EXPECT_EQ(kernel.tables.counters().overruns.get(), 2u);
}

// They filled the table: no neighbour that came later was followed.
TEST(KernelNeighbours, ThoseWithoutAStateAreForgottenAfterAReading) {
  const LinkIdentity interface{.index = kInterface, .name = "eth0", .mac = kOurMac};
  KernelTablesCounters counters;
  KernelAddresses addresses(counters);
  KernelNeighbours neighbours(interface, addresses, [](const Gid&) { return 0; }, counters);
  const auto host = [](std::size_t n) { return Gid::from_ipv4(0x0a000000 + static_cast<uint32_t>(n)); };
  for (std::size_t i = 0; i < kMaxKernelNeighbours; ++i)
    neighbours.take({.gid = host(i), .state = NUD_NONE}, 1, Nanos(0));
  neighbours.forget_unread(1, Nanos(0));
  const Gid later = host(kMaxKernelNeighbours);
  neighbours.take({.gid = later, .state = NUD_REACHABLE, .mac = kMac}, 1, Nanos(0));
  EXPECT_EQ(neighbours.lookup(later), kMac);
}

TEST(KernelTables, FollowsAnInterfaceThatCameBackAsAnother) {
  Kernel kernel;
  kernel.begin({"192.0.2.1/24"});
  constexpr uint32_t kOther = 99;
  kernel.tables.move_to(kOther, kernel.now);
  kernel.answer(address_message(RTM_NEWADDR, "192.0.2.7/24", 0, kernel.sequence(), kOther));
  kernel.answer(done(kernel.sequence()));
  kernel.answer(done(kernel.sequence()));
  EXPECT_TRUE(kernel.tables.complete());
  EXPECT_EQ(kernel.addresses(), Texts{"192.0.2.7"});
  kernel.news(address_message(RTM_NEWADDR, "192.0.2.8/24"));
  EXPECT_EQ(kernel.addresses(), Texts{"192.0.2.7"});
}

TEST(KernelTables, AReadingThatEndsNowhereIsRepeated) {
  Kernel kernel;
  kernel.tables.read_all(kernel.now);
  const uint32_t first = kernel.sequence();
  kernel.answer(refusal(first, EBUSY));
  EXPECT_FALSE(kernel.tables.complete());
  EXPECT_EQ(kernel.tables.next_deadline(), kKernelAnswerTime);
  kernel.tables.poll(kernel.now = kKernelAnswerTime);
  EXPECT_NE(kernel.sequence(), first);
  kernel.answer(done(kernel.sequence()));
  kernel.answer(done(kernel.sequence()));
  EXPECT_TRUE(kernel.tables.complete());
}

TEST(KernelTables, FindsANeighbourOnTheLink) {
  Kernel kernel;
  kernel.begin({"192.0.2.1/24"});
  EXPECT_EQ(kernel.tables.next_hop(gid("192.0.2.2")).error().code, EAGAIN);
  kernel.tables.request(gid("192.0.2.2"), kernel.now);
  kernel.answer_route("192.0.2.2", "", "192.0.2.1");
  EXPECT_EQ(kernel.hop("192.0.2.2"), "192.0.2.2");
  EXPECT_EQ(to_text(kernel.tables.source_for(gid("192.0.2.2")).value()), "192.0.2.1");
  EXPECT_EQ(kernel.probed, Texts{"192.0.2.2"});
  EXPECT_FALSE(kernel.tables.lookup(gid("192.0.2.2")));
  kernel.news(neighbour_message(RTM_NEWNEIGH, "192.0.2.2", NUD_REACHABLE, kMac));
  EXPECT_EQ(kernel.tables.lookup(gid("192.0.2.2")), kMac);
  EXPECT_EQ(kernel.tables.take_changes(), (std::map<Gid, EthAddr>{{gid("192.0.2.2"), kMac}}));
  EXPECT_TRUE(kernel.tables.take_changes().empty());
  EXPECT_EQ(kernel.tables.lookup(gid("192.0.2.1")), kOurMac);
}

TEST(KernelTables, AStaleNeighbourIsUsedAndConfirmed) {
  Kernel kernel;
  kernel.begin({"192.0.2.1/24"});
  kernel.news(neighbour_message(RTM_NEWNEIGH, "192.0.2.2", NUD_STALE, kMac));
  kernel.tables.request(gid("192.0.2.2"), kernel.now);
  kernel.answer_route("192.0.2.2");
  EXPECT_EQ(kernel.tables.lookup(gid("192.0.2.2")), kMac);
  EXPECT_EQ(kernel.probed.size(), 1u);
  kernel.news(neighbour_message(RTM_NEWNEIGH, "192.0.2.2", NUD_REACHABLE, kMac));
  kernel.tables.poll(kernel.now = kFreshTime);
  EXPECT_EQ(kernel.probed.size(), 1u) << "the kernel knows it is there";
  kernel.news(neighbour_message(RTM_NEWNEIGH, "192.0.2.2", NUD_STALE, kMac));
  kernel.tables.poll(kernel.now = 2 * kFreshTime);
  EXPECT_EQ(kernel.probed.size(), 2u);
}

TEST(KernelTables, ANeighbourThatMovesIsTold) {
  Kernel kernel;
  kernel.begin({"192.0.2.1/24"});
  kernel.know("192.0.2.2");
  EXPECT_EQ(kernel.tables.take_changes().size(), 1u);
  kernel.news(neighbour_message(RTM_NEWNEIGH, "192.0.2.2", NUD_STALE, kOtherMac));
  EXPECT_EQ(kernel.tables.take_changes(), (std::map<Gid, EthAddr>{{gid("192.0.2.2"), kOtherMac}}));
  // The kernel forgets it, and finds it again when asked.
  kernel.news(neighbour_message(RTM_DELNEIGH, "192.0.2.2", NUD_STALE, kOtherMac));
  EXPECT_FALSE(kernel.tables.lookup(gid("192.0.2.2")));
  kernel.tables.poll(kernel.now += kKernelAnswerTime);
  EXPECT_EQ(kernel.probed, Texts{"192.0.2.2"});
  kernel.news(neighbour_message(RTM_NEWNEIGH, "192.0.2.2", NUD_REACHABLE, kOtherMac));
  EXPECT_TRUE(kernel.tables.take_changes().empty()) << "it is where it was";
}

TEST(KernelTables, ANeighbourThatDoesNotAnswerHasFailed) {
  Kernel kernel;
  kernel.begin({"192.0.2.1/24"});
  const Gid peer = gid("192.0.2.2");
  kernel.tables.request(peer, kernel.now);
  kernel.answer_route("192.0.2.2");
  EXPECT_FALSE(kernel.tables.failed(peer));
  kernel.news(neighbour_message(RTM_NEWNEIGH, "192.0.2.2", NUD_FAILED, kMac));
  EXPECT_TRUE(kernel.tables.failed(peer));
  // A new request asks the kernel again.
  kernel.tables.request(peer, kernel.now = seconds(5));
  EXPECT_FALSE(kernel.tables.failed(peer));
  EXPECT_EQ(kernel.probed.size(), 2u);
  // Without a word of the kernel it fails as well.
  kernel.tables.poll(kernel.now = seconds(5) + kKernelResolveTime);
  EXPECT_TRUE(kernel.tables.failed(peer));
  // While it is in use it is asked about now and then, less and less often.
  const std::size_t before = kernel.probed.size();
  for (; kernel.now < std::chrono::hours(3); kernel.now += kKernelResolveTime) kernel.tables.poll(kernel.now);
  EXPECT_GT(kernel.probed.size(), before);
  EXPECT_LT(kernel.probed.size(), before + 12);
  kernel.news(neighbour_message(RTM_NEWNEIGH, "192.0.2.2", NUD_STALE, kMac));
  EXPECT_FALSE(kernel.tables.failed(peer));
  EXPECT_EQ(kernel.tables.lookup(peer), kMac);
}

TEST(KernelTables, DestinationsShareTheirGateway) {
  Kernel kernel;
  kernel.begin({"192.0.2.1/24"});
  kernel.news(neighbour_message(RTM_NEWNEIGH, "192.0.2.254", NUD_STALE, kMac));
  for (const auto* to : {"198.51.100.1", "198.51.100.2", "198.51.100.3"}) {
    kernel.tables.request(gid(to), kernel.now);
    kernel.answer_route(to, "192.0.2.254");
  }
  EXPECT_EQ(kernel.probed, Texts{"192.0.2.254"});
  kernel.news(neighbour_message(RTM_NEWNEIGH, "192.0.2.254", NUD_FAILED, kMac));
  EXPECT_TRUE(kernel.tables.failed(gid("192.0.2.254")));
  kernel.tables.request(gid("198.51.100.4"), kernel.now);
  kernel.answer_route("198.51.100.4", "192.0.2.254");
  EXPECT_FALSE(kernel.tables.failed(gid("192.0.2.254"))) << "it is looked for again";
  EXPECT_EQ(kernel.probed.size(), 2u);
}

TEST(KernelTables, AHostThatMayNotSendHasFailedAtOnce) {
  Kernel kernel;
  kernel.begin({"192.0.2.1/24"});
  kernel.probe_error = ENETDOWN;
  kernel.tables.request(gid("192.0.2.2"), kernel.now);
  kernel.answer_route("192.0.2.2");
  EXPECT_TRUE(kernel.tables.failed(gid("192.0.2.2")));
}

TEST(KernelTables, RoutesLeadThroughGateways) {
  Kernel kernel;
  kernel.begin({"192.0.2.1/24", "2001:db8::1/64", "fe80::1/64"});
  kernel.news(neighbour_message(RTM_NEWNEIGH, "192.0.2.254", NUD_REACHABLE, kMac));
  kernel.news(neighbour_message(RTM_NEWNEIGH, "fe80::fe", NUD_REACHABLE, kOtherMac));
  kernel.tables.request(gid("198.51.100.1"), kernel.now);
  kernel.answer_route("198.51.100.1", "192.0.2.254", "192.0.2.1");
  kernel.tables.request(gid("2001:db8:1::1"), kernel.now);
  kernel.answer_route("2001:db8:1::1", "fe80::fe", "2001:db8::1");
  EXPECT_EQ(kernel.hop("198.51.100.1"), "192.0.2.254");
  EXPECT_EQ(kernel.hop("2001:db8:1::1"), "fe80::fe");
  EXPECT_EQ(to_text(kernel.tables.source_for(gid("2001:db8:1::1")).value()), "2001:db8::1");
  EXPECT_EQ(kernel.tables.take_changes(),
            (std::map<Gid, EthAddr>{{gid("198.51.100.1"), kMac}, {gid("2001:db8:1::1"), kOtherMac}}));
  EXPECT_TRUE(kernel.probed.empty());
}

TEST(KernelTables, AnIpv4RouteMayLeadThroughAnIpv6Gateway) {
  Kernel kernel;
  kernel.begin({"192.0.2.1/24"});
  kernel.tables.request(gid("198.51.100.1"), kernel.now);
  Message message(RTM_NEWROUTE, kernel.sequence());
  message.put(uint32_t{AF_INET}).put(uint8_t{0}).put(uint8_t{0}).put(uint8_t{0}).put(uint8_t{RTN_UNICAST}).put(0);
  Bytes via(18);
  via[0] = std::byte{AF_INET6};
  std::memcpy(via.data() + 2, gid("fe80::fe").bytes.data(), 16);
  kernel.answer(message.attribute(RTA_OIF, kInterface).attribute(RTA_VIA, via).bytes());
  EXPECT_EQ(kernel.hop("198.51.100.1"), "fe80::fe");
}

TEST(KernelTables, AChangedRouteRedirects) {
  Kernel kernel;
  kernel.begin({"192.0.2.1/24"});
  kernel.news(neighbour_message(RTM_NEWNEIGH, "192.0.2.253", NUD_REACHABLE, kMac));
  kernel.news(neighbour_message(RTM_NEWNEIGH, "192.0.2.254", NUD_REACHABLE, kOtherMac));
  kernel.tables.request(gid("198.51.100.1"), kernel.now);
  kernel.answer_route("198.51.100.1", "192.0.2.253");
  kernel.tables.take_changes();
  const std::size_t before = kernel.asked.size();
  kernel.now = seconds(1);
  for (const uint16_t type : {RTM_DELROUTE, RTM_NEWRULE, RTM_DELNEXTHOP})
    kernel.news(Message(type, 1).put(uint32_t{AF_INET}).put(uint64_t{0}).bytes());
  EXPECT_EQ(kernel.asked.size(), before) << "a flood of changes is not a flood of questions";
  EXPECT_EQ(kernel.tables.next_deadline(), kernel.now);
  kernel.tables.poll(kernel.now);
  EXPECT_EQ(kernel.asked.size(), before + 1);
  kernel.answer_route("198.51.100.1", "192.0.2.254");
  EXPECT_EQ(kernel.tables.take_changes(), (std::map<Gid, EthAddr>{{gid("198.51.100.1"), kOtherMac}}));
  kernel.news(Message(RTM_DELROUTE, 1).put(uint32_t{AF_INET}).put(uint64_t{0}).bytes());
  EXPECT_EQ(kernel.tables.next_deadline(), kernel.now + kRouteInterval);
}

TEST(KernelTables, UnreachableDestinationsAreTold) {
  Kernel kernel;
  kernel.begin({"192.0.2.1/24", "2001:db8::1/64"});
  kernel.tables.request(gid("2001:db8:1::1"), kernel.now);
  kernel.answer(refusal(kernel.sequence(), ENETUNREACH));
  EXPECT_EQ(kernel.tables.next_hop(gid("2001:db8:1::1")).error().code, ENETUNREACH);
  EXPECT_NE(kernel.hop("2001:db8:1::1").find("ip route get 2001:db8:1::1 oif eth0"), std::string::npos);
  kernel.tables.request(gid("192.0.2.99"), kernel.now);
  kernel.answer_route("192.0.2.99", "", "", RTN_LOCAL, 1);
  EXPECT_NE(kernel.hop("192.0.2.99").find("another interface of this host"), std::string::npos);
  kernel.tables.request(gid("192.0.2.255"), kernel.now);
  kernel.answer_route("192.0.2.255", "", "", RTN_BROADCAST);
  EXPECT_NE(kernel.hop("192.0.2.255").find("not the unicast address"), std::string::npos);
  kernel.tables.request(gid("198.51.100.2"), kernel.now);
  kernel.answer_route("198.51.100.2", "192.0.2.254", "", RTN_UNICAST, 9);
  EXPECT_NE(kernel.hop("198.51.100.2").find("another interface"), std::string::npos);
  EXPECT_TRUE(kernel.probed.empty());
}

// For an interface, Linux takes an IPv4 address without a route for one on the link.
TEST(KernelTables, NoRouteIsNotTheLink) {
  Kernel kernel;
  kernel.begin({"192.0.2.1/24"});
  for (const bool there : {false, true}) {
    kernel.tables.request(gid("198.51.100.1"), kernel.now);
    const std::size_t before = kernel.asked.size();
    kernel.answer_route("198.51.100.1", "", "192.0.2.1");
    ASSERT_EQ(kernel.asked.size(), before + 1) << "is there an entry?";
    if (there) {
      kernel.answer_route("198.51.100.0");
      EXPECT_EQ(kernel.hop("198.51.100.1"), "198.51.100.1");
      EXPECT_EQ(to_text(kernel.tables.source_for(gid("198.51.100.1")).value()), "192.0.2.1");
    } else {
      kernel.answer(refusal(kernel.sequence(), EHOSTUNREACH));
      EXPECT_NE(kernel.hop("198.51.100.1").find("no route to"), std::string::npos);
    }
  }
}

TEST(KernelTables, ADeprecatedAddressIsTheLastSource) {
  Kernel kernel;
  kernel.begin({"fe80::1/64", "2001:db8::1/64", "2001:db8::2/64"});
  kernel.news(address_message(RTM_NEWADDR, "2001:db8::1/64", IFA_F_DEPRECATED));
  EXPECT_EQ(kernel.addresses().size(), 3u);
  kernel.tables.request(gid("2001:db8::9"), kernel.now);
  kernel.answer_route("2001:db8::9");
  EXPECT_EQ(to_text(kernel.tables.source_for(gid("2001:db8::9")).value()), "2001:db8::2");
  kernel.news(address_message(RTM_DELADDR, "2001:db8::2/64"));
  EXPECT_EQ(to_text(kernel.tables.source_for(gid("2001:db8::9")).value()), "2001:db8::1");
}

TEST(KernelTables, TellsOfTheLink) {
  Kernel kernel;
  kernel.begin({"192.0.2.1/24"});
  const auto link = [](const EthAddr& mac, uint32_t mtu) {
    return Message(RTM_NEWLINK, 0)
        .put(uint32_t{AF_UNSPEC})
        .put(kInterface)
        .put(uint64_t{0})
        .attribute(IFLA_ADDRESS, mac)
        .attribute(IFLA_MTU, mtu)
        .bytes();
  };
  kernel.news(link(kOurMac, 1500));
  EXPECT_EQ(kernel.tables.take_link().value().mtu, 1500u);
  kernel.news(link(kOurMac, 1500));
  EXPECT_FALSE(kernel.tables.take_link());
  kernel.news(link(kOtherMac, 1500));
  EXPECT_EQ(kernel.tables.take_link().value().mac, kOtherMac);
  kernel.news(link(kOtherMac, 1400));
  EXPECT_EQ(kernel.tables.take_link().value().mtu, 1400u);
}

TEST(KernelTables, DestinationsAreBounded) {
  Kernel kernel;
  kernel.begin({"10.0.0.1/8"});
  for (uint32_t i = 0; i < kMaxDestinations + 3; ++i) {
    kernel.tables.request(Gid::from_ipv4(0x0a000002 + i), kernel.now);
    kernel.asked.resize(1);
  }
  EXPECT_EQ(kernel.tables.counters().table_full.get(), 3u);
}

}  // namespace
}  // namespace uroce::net
