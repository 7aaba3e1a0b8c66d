// Answers to `rdma` of iproute2, byte by byte, and counters in the kernel's names.
#include "nldev/answer.h"

#include <gtest/gtest.h>
#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "nldev/kernel_counters.h"

namespace uroce::nldev {
namespace {

using Expected = std::vector<unsigned char>;

Expected plain(const Bytes& bytes) {
  Expected out(bytes.size());
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

class Fake : public Source {
 public:
  std::vector<Device> devices() override {
    return {{.name = "uroce0",
             .firmware = "1",
             .guid = 0x0102030405060708,
             .capabilities = 0x10,
             .port_capabilities = 0x10000,
             .port_state = 4,
             .physical_state = 5}};
  }
  std::expected<std::vector<Object>, int> objects(Table table, const Device& device) override {
    EXPECT_EQ(device.name, "uroce0");
    if (error != 0) return std::unexpected(error);
    return table == wanted ? list : std::vector<Object>{};
  }
  std::expected<Counters, int> counters(const Device& /*device*/) override { return Counters{{"sent_pkts", 7}}; }

  Table wanted = Table::qp;
  std::vector<Object> list;
  int error = 0;
};

/// A request of `rdma`: the command, and numbers.
Bytes request(uint16_t command, uint16_t flags, const Attributes& attributes) {
  Bytes out(sizeof(nlmsghdr));
  append(out, attributes);
  const nlmsghdr header{.nlmsg_len = static_cast<uint32_t>(out.size()),
                        .nlmsg_type = static_cast<uint16_t>(RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, command)),
                        .nlmsg_flags = static_cast<uint16_t>(NLM_F_REQUEST | flags),
                        .nlmsg_seq = 0x11,
                        .nlmsg_pid = 0};
  std::memcpy(out.data(), &header, sizeof header);
  return out;
}

constexpr Attribute kDevice0{RDMA_NLDEV_ATTR_DEV_INDEX, uint32_t{0}};

nlmsghdr header_of(const Bytes& packet) {
  nlmsghdr header{};
  EXPECT_GE(packet.size(), sizeof header);
  std::memcpy(&header, packet.data(), sizeof header);
  return header;
}

int error_in(const Bytes& packet) {
  int error = 0;
  EXPECT_EQ(header_of(packet).nlmsg_type, NLMSG_ERROR);
  std::memcpy(&error, packet.data() + sizeof(nlmsghdr), sizeof error);
  return -error;
}

bool holds(const Bytes& packet, std::string_view text) {
  return std::string_view(reinterpret_cast<const char*>(packet.data()), packet.size()).find(text) !=
         std::string_view::npos;
}

TEST(Nldev, ListsDevices) {
  Fake source;
  const auto packets = answer(request(RDMA_NLDEV_CMD_GET, NLM_F_DUMP | NLM_F_ACK, {}), source);
  ASSERT_EQ(packets.size(), 2U);
  EXPECT_EQ(plain(packets[0]), (Expected{0x6c, 0, 0,  0, 1,    0x14, 2,   0,   0x11, 0,   0, 0, 0, 0, 0, 0,  // header
                                         8,    0, 1,  0, 0,    0,    0,   0,                                 // index
                                         11,   0, 2,  0, 'u',  'r',  'o', 'c', 'e',  '0', 0, 0,              // name
                                         8,    0, 3,  0, 1,    0,    0,   0,                                 // ports
                                         12,   0, 4,  0, 0x10, 0,    0,   0,   0,    0,   0, 0,              // caps
                                         6,    0, 5,  0, '1',  0,    0,   0,                                 // firmware
                                         12,   0, 6,  0, 8,    7,    6,   5,   4,    3,   2, 1,              // GUIDs
                                         12,   0, 7,  0, 8,    7,    6,   5,   4,    3,   2, 1,              //
                                         5,    0, 14, 0, 1,    0,    0,   0,                                 // CA
                                         9,    0, 67, 0, 'r',  'o',  'c', 'e', 0,    0,   0, 0}));           // protocol
  EXPECT_EQ(plain(packets[1]), (Expected{20, 0, 0, 0, 3, 0, 2, 0, 0x11, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}));
}

TEST(Nldev, AnswersForAPort) {
  Fake source;
  const Attributes port{kDevice0, {RDMA_NLDEV_ATTR_PORT_INDEX, uint32_t{1}}};
  const auto packets = answer(request(RDMA_NLDEV_CMD_PORT_GET, NLM_F_ACK, port), source);
  ASSERT_EQ(packets.size(), 2U);
  EXPECT_EQ(header_of(packets[0]).nlmsg_flags, 0);
  const Expected state{5, 0, 12, 0, 4, 0, 0, 0, 5, 0, 13, 0, 5, 0, 0, 0};
  const Expected whole = plain(packets[0]);
  EXPECT_TRUE(std::equal(state.rbegin(), state.rend(), whole.rbegin()));
  EXPECT_EQ(error_in(packets[1]), 0);  // the receipt
}

TEST(Nldev, RefusesAsTheKernelDoes) {
  Fake source;
  const auto refusal = [&](uint16_t command, const Attributes& attributes) {
    const auto packets = answer(request(command, NLM_F_ACK, attributes), source);
    EXPECT_EQ(packets.size(), 1U);
    return packets.empty() ? 0 : error_in(packets[0]);
  };
  EXPECT_EQ(refusal(RDMA_NLDEV_CMD_PORT_GET, {}), EINVAL);
  EXPECT_EQ(refusal(RDMA_NLDEV_CMD_GET, {{RDMA_NLDEV_ATTR_DEV_INDEX, uint32_t{1}}}), ENODEV);
  EXPECT_EQ(refusal(RDMA_NLDEV_CMD_PORT_GET, {kDevice0, {RDMA_NLDEV_ATTR_PORT_INDEX, uint32_t{2}}}), EINVAL);
  EXPECT_EQ(refusal(RDMA_NLDEV_CMD_NEWLINK, {}), EOPNOTSUPP);
  source.error = EIO;
  EXPECT_EQ(refusal(RDMA_NLDEV_CMD_RES_GET, {kDevice0}), EIO);
}

TEST(Nldev, SurvivesAnyBytes) {
  Fake source;
  Bytes whole = request(RDMA_NLDEV_CMD_PORT_GET, NLM_F_ACK, {kDevice0});
  for (std::size_t length = 0; length < whole.size(); ++length) {
    EXPECT_TRUE(answer(std::span(whole).first(length), source).empty()) << length;
  }
  whole[sizeof(nlmsghdr)] = std::byte{0xff};  // an attribute longer than the message
  EXPECT_EQ(error_in(answer(whole, source).at(0)), EINVAL);
  whole[sizeof(nlmsghdr)] = std::byte{1};  // shorter than its header
  EXPECT_EQ(error_in(answer(whole, source).at(0)), EINVAL);
}

Object queue_pair(uint32_t number, const char* state) {
  return {.client = 3,
          .id = number,
          .process = 42,
          .values = {{"qpn", std::to_string(number)}, {"type", "RC"}, {"state", state}, {"dest_qpn", "0x000102"}}};
}

TEST(Nldev, ListsQueuePairs) {
  Fake source;
  source.list = {queue_pair(5, "RTS"), queue_pair(6, "RESET")};
  const auto packets = answer(
      request(RDMA_NLDEV_CMD_RES_QP_GET, NLM_F_DUMP, {kDevice0, {RDMA_NLDEV_ATTR_PORT_INDEX, uint32_t{1}}}), source);
  ASSERT_EQ(packets.size(), 2U);
  // The one in RESET has no port.
  const Expected entry{80, 0, 19, 0, 76, 0, 20, 0,                           // the table, and its one entry
                       8,  0, 3,  0, 1,  0, 0,  0,                           // port
                       8,  0, 21, 0, 5,  0, 0,  0, 8, 0, 22, 0, 2, 1, 0, 0,  // LQPN, RQPN
                       8,  0, 23, 0, 0,  0, 0,  0, 8, 0, 24, 0, 0, 0, 0, 0,  // PSNs
                       5,  0, 25, 0, 0,  0, 0,  0,                           // migrated
                       5,  0, 26, 0, 2,  0, 0,  0, 5, 0, 27, 0, 3, 0, 0, 0,  // RC, RTS
                       8,  0, 28, 0, 42, 0, 0,  0};                          // process
  const Expected whole = plain(packets[0]);
  EXPECT_EQ(Expected(whole.end() - static_cast<std::ptrdiff_t>(std::min(entry.size(), whole.size())), whole.end()),
            entry);
}

TEST(Nldev, CutsLongListsIntoPackets) {
  Fake source;
  for (uint32_t i = 1; i <= 500; ++i) source.list.push_back(queue_pair(i, "RTS"));
  const auto packets = answer(request(RDMA_NLDEV_CMD_RES_QP_GET, NLM_F_DUMP, {kDevice0}), source);
  std::size_t bytes = 0;
  for (const Bytes& packet : packets) {
    EXPECT_LE(packet.size(), kMostBytes);
    EXPECT_EQ(header_of(packet).nlmsg_len, packet.size());
    bytes += packet.size();
  }
  EXPECT_EQ(header_of(packets.back()).nlmsg_type, NLMSG_DONE);
  EXPECT_GT(bytes, 500U * 76U);
}

TEST(Nldev, FindsAnObjectByItsNumber) {
  Fake source;
  source.list = {queue_pair(5, "RTS")};
  const auto ask = [&](uint32_t number) {
    return answer(request(RDMA_NLDEV_CMD_RES_QP_GET, NLM_F_ACK, {kDevice0, {RDMA_NLDEV_ATTR_RES_LQPN, number}}),
                  source);
  };
  EXPECT_EQ(ask(5).size(), 2U);
  EXPECT_EQ(error_in(ask(6).at(0)), ENOENT);
}

TEST(Nldev, ShowsAddressesOfIds) {
  const Attributes entry = entry_of(
      Table::cm_id,
      {.client = 1,
       .id = 9,
       .process = 42,
       .values = {
           {"state", "LISTEN"}, {"space", "0x0106"}, {"local", "10.117.0.1:7174"}, {"remote", "[2001:db8::1]:1"}}});
  const auto at = [&](uint16_t type) {
    const auto found = std::ranges::find(entry, type, &Attribute::type);
    EXPECT_NE(found, entry.end()) << type;
    return found->value;
  };
  EXPECT_EQ(std::get<uint32_t>(at(RDMA_NLDEV_ATTR_RES_PS)), 0x106U);
  EXPECT_EQ(std::get<uint8_t>(at(RDMA_NLDEV_ATTR_RES_STATE)), 8);
  const Bytes local = std::get<Bytes>(at(RDMA_NLDEV_ATTR_RES_SRC_ADDR));
  EXPECT_EQ(plain({local.begin(), local.begin() + 8}), (Expected{2, 0, 0x1c, 0x06, 10, 117, 0, 1}));
  const Bytes remote = std::get<Bytes>(at(RDMA_NLDEV_ATTR_RES_DST_ADDR));
  EXPECT_EQ(plain({remote.begin(), remote.begin() + 4}), (Expected{10, 0, 0, 1}));
  EXPECT_EQ(remote.size(), 128U);
}

TEST(Nldev, CountersAndSummary) {
  Fake source;
  const Attributes port{kDevice0, {RDMA_NLDEV_ATTR_PORT_INDEX, uint32_t{1}}};
  const auto counters = answer(request(RDMA_NLDEV_CMD_STAT_GET, NLM_F_ACK, port), source);
  ASSERT_EQ(counters.size(), 2U);
  EXPECT_TRUE(holds(counters[0], "sent_pkts"));
  source.list = {queue_pair(5, "RTS")};
  const auto summary = answer(request(RDMA_NLDEV_CMD_RES_GET, NLM_F_ACK, {kDevice0}), source);
  for (const char* name : {"pd", "cq", "qp", "cm_id", "mr", "ctx", "srq"}) EXPECT_TRUE(holds(summary.at(0), name));
}

TEST(KernelCounters, AreSumsOfOurs) {
  const Counters ours{{"rx_bytes", 4003},   {"drop_icrc", 2},    {"drop_truncated", 3},
                      {"cnps_received", 5}, {"cnps_ignored", 1}, {"tx_packets", 6}};
  EXPECT_EQ(port_counters(ours), (Counters{{"port_rcv_data", 1000}, {"port_xmit_packets", 6}, {"port_rcv_errors", 5}}));
  EXPECT_EQ(hardware_counters(ours),
            (Counters{{"sent_pkts", 6}, {"rx_icrc_encapsulated", 2}, {"rp_cnp_handled", 4}, {"rp_cnp_ignored", 1}}));
}

}  // namespace
}  // namespace uroce::nldev
