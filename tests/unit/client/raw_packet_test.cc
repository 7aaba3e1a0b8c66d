// Raw packet queue pairs and their rules through the public API.
#include <cerrno>
#include <cstring>

#include "endpoints.h"

namespace uroce {
namespace {

using test::expect_error;
using test::must;
using test::next;
using test::Side;

class RawPacketTest : public testing::TestWithParam<uint32_t> {
 protected:
  RawPacketTest() {
    world_.add({.engines = GetParam()});
    world_.add({.engines = GetParam()});
    a_.emplace(world_.device(0));
    b_.emplace(world_.device(1));
  }
  /// Writes a frame at the beginning of a_'s memory.
  void write_frame(const EthAddr& to, uint16_t type) {
    std::memcpy(a_->memory.data(), to.bytes.data(), 6);
    std::memcpy(a_->memory.data() + 6, a_->context.info().mac.bytes.data(), 6);
    a_->memory[12] = static_cast<std::byte>(type >> 8);
    a_->memory[13] = static_cast<std::byte>(type & 0xff);
  }
  int send(QueuePair& qp, uint32_t bytes) {
    return qp.post_send({.flags = SendFlag::signaled, .sges = std::array{a_->mr.sge(0, bytes)}});
  }
  int receive(QueuePair& qp, uint64_t wr_id) {
    return qp.post_recv({.wr_id = wr_id, .sges = std::array{b_->mr.sge(0, 2000)}});
  }
  void expect_quiet(Side& side) {
    for (int i = 0; i < 100; ++i) world_.poll();
    Completion completion;
    EXPECT_EQ(side.cq.poll({&completion, 1}), 0u);
  }

  test::World world_;
  std::optional<Side> a_, b_;
};

TEST_P(RawPacketTest, AFrameGoesToTheQueuePairOfItsRule) {
  auto sender = a_->make_raw_qp(), first = b_->make_raw_qp(), second = b_->make_raw_qp();
  FlowRule rule;
  rule.value.eth_type = 0x88b5;
  rule.mask.eth_type = 0xffff;
  auto of_type = std::optional(must(second.create_flow(rule)));
  const auto of_rest = must(first.create_flow({.type = FlowType::all_default}));
  for (uint64_t id = 1; id <= 3; ++id) {
    ASSERT_EQ(receive(first, 10 + id), 0);
    ASSERT_EQ(receive(second, 20 + id), 0);
  }
  write_frame(b_->context.info().mac, 0x88b5);
  ASSERT_EQ(send(sender, 1000), 0);
  EXPECT_EQ(next(world_, a_->cq).status, WcStatus::success);
  const auto received = next(world_, b_->cq);
  EXPECT_EQ(received.wr_id, 21u);
  EXPECT_EQ(received.qpn, second.qpn());
  EXPECT_EQ(received.byte_len, 1000u);
  EXPECT_EQ(std::memcmp(b_->memory.data(), a_->memory.data(), 1000), 0);

  write_frame(b_->context.info().mac, 0x88b6);
  ASSERT_EQ(send(sender, 60), 0);
  EXPECT_EQ(next(world_, b_->cq).wr_id, 11u);
  of_type.reset();
  write_frame(b_->context.info().mac, 0x88b5);
  ASSERT_EQ(send(sender, 60), 0);
  EXPECT_EQ(next(world_, b_->cq).wr_id, 12u) << "the rule has gone";
}

TEST_P(RawPacketTest, ARuleOutlivesItsQueuePairsHandleAndThenNobodyReceives) {
  auto sender = a_->make_raw_qp();
  auto receiver = std::optional(b_->make_raw_qp());
  auto rule = std::optional(must(receiver->create_flow({.type = FlowType::all_default})));
  ASSERT_EQ(receive(*receiver, 1), 0);
  receiver.reset();
  write_frame(b_->context.info().mac, 0x88b5);
  ASSERT_EQ(send(sender, 60), 0);
  EXPECT_EQ(next(world_, b_->cq).wr_id, 1u);
  rule.reset();
  ASSERT_EQ(send(sender, 60), 0);
  EXPECT_EQ(next(world_, a_->cq).status, WcStatus::success);
  EXPECT_EQ(next(world_, a_->cq).status, WcStatus::success);
  expect_quiet(*b_);
}

TEST_P(RawPacketTest, WrongRulesAndQueuePairsAreRefused) {
  auto datagrams = a_->make_qp({.type = QpType::ud});
  expect_error(datagrams.create_flow({}), EINVAL, "not a raw packet queue pair");
  auto raw = a_->make_qp({.type = QpType::raw_packet});
  expect_error(raw.create_flow({.layers = FlowLayer::tcp | FlowLayer::udp}), EINVAL, "TCP and UDP");
  expect_error(raw.connect({}, {}), EINVAL, "no peer");
  expect_error(raw.start(1), EINVAL, "not a UD queue pair");
  expect_error(raw.attach_multicast(Gid::from_ipv4(0xe0000001)), EINVAL, "only a UD queue pair");
  expect_error(raw.modify({.state = QpState::init}, QpAttrBit::state), EINVAL, "port");
  expect_error(
      raw.modify({.state = QpState::init, .qkey = 1}, QpAttrMask(QpAttrBit::state) | QpAttrBit::port | QpAttrBit::qkey),
      EINVAL, "qkey");
  EXPECT_EQ(raw.post_send(SendRequest{}), EINVAL) << "not in RTS";
  auto sending = a_->make_raw_qp();
  EXPECT_EQ(sending.post_send({.opcode = WrOpcode::rdma_write}), EINVAL);
}

// The last two bits of the source address are those of the hash, in reverse order.
RxHash by_source() {
  RxHash hash{.fields = RxHashField::ipv4_source};
  hash.key[7] = 0x04;
  return hash;
}
constexpr std::size_t kEntryOf[] = {0, 2, 1, 3};  // by those two bits

TEST_P(RawPacketTest, ARuleSpreadsFramesOverQueuePairsOfAllEngines) {
  auto sender = a_->make_raw_qp();
  std::vector<QueuePair> receivers;
  std::vector<const QueuePair*> table;
  for (int i = 0; i < 4; ++i) receivers.push_back(b_->make_raw_qp());
  for (const QueuePair& qp : receivers) table.push_back(&qp);
  auto rule = std::optional(must(b_->context.create_flow(table, {.type = FlowType::all_default}, by_source())));
  write_frame(b_->context.info().mac, 0x0800);
  a_->memory[14] = std::byte{0x45};
  for (uint8_t host = 0; host < 12; ++host) {
    QueuePair& receiver = receivers[kEntryOf[host % 4]];
    a_->memory[29] = std::byte{host};
    ASSERT_EQ(receive(receiver, host), 0);
    ASSERT_EQ(send(sender, 60), 0);
    const auto received = next(world_, b_->cq);
    EXPECT_EQ(received.qpn, receiver.qpn());
    EXPECT_EQ(received.wr_id, host);
  }
  ASSERT_EQ(receive(receivers[1], 99), 0);
  const uint32_t kept = receivers[1].qpn();
  receivers.clear();
  a_->memory[29] = std::byte{2};
  ASSERT_EQ(send(sender, 60), 0);
  EXPECT_EQ(next(world_, b_->cq).qpn, kept) << "the rule keeps them";
  rule.reset();
  ASSERT_EQ(send(sender, 60), 0);
  expect_quiet(*b_);
}

TEST_P(RawPacketTest, ARuleCountsWhatItTakes) {
  auto sender = a_->make_raw_qp(), first = b_->make_raw_qp(), second = b_->make_raw_qp();
  const QueuePair* const table[] = {&first, &second};
  const auto rule = must(b_->context.create_flow(table, {.type = FlowType::all_default}, by_source()));
  const auto sniffer = must(first.create_flow({.type = FlowType::sniffer}));
  write_frame(b_->context.info().mac, 0x0800);
  a_->memory[14] = std::byte{0x45};
  for (uint8_t host = 0; host < 6; ++host) {
    a_->memory[29] = std::byte{host};
    ASSERT_EQ(send(sender, 60u + host), 0) << "nobody has posted a receive";
    EXPECT_EQ(next(world_, a_->cq).status, WcStatus::success);
  }
  expect_quiet(*b_);
  for (const Flow* flow : {&rule, &sniffer}) {
    const FlowCounters counted = must(flow->counters());
    EXPECT_EQ(counted.packets, 6u);
    EXPECT_EQ(counted.bytes, 6 * 60 + 15u);
  }
  const auto idle = must(second.create_flow({.priority = 1}));
  EXPECT_EQ(must(idle.counters()).packets, 0u);
}

TEST_P(RawPacketTest, WrongTablesAreRefused) {
  auto raw = a_->make_raw_qp(), foreign = b_->make_raw_qp();
  auto datagrams = a_->make_qp({.type = QpType::ud});
  const auto create = [this](const std::vector<const QueuePair*>& table, const RxHash& hash = {}) {
    return a_->context.create_flow(table, {}, hash);
  };
  expect_error(create({}), EINVAL, "has 0");
  expect_error(create({&raw, &raw, &raw}), EINVAL, "power of two");
  expect_error(create(std::vector<const QueuePair*>(512, &raw)), EINVAL, "256");
  expect_error(create({&raw, &datagrams}), EINVAL, "not a raw packet queue pair");
  expect_error(create({&raw, &foreign}), EINVAL, "another context");
  expect_error(create({&raw}, {.fields = RxHashFields::from_bits(0x100)}), EINVAL, "0x100");
  Side other(world_.device(0));
  auto theirs = other.make_raw_qp();
  expect_error(create({&raw, &theirs}), EINVAL, "another context");
  EXPECT_TRUE(create(std::vector<const QueuePair*>(256, &raw), by_source()));
}

TEST_P(RawPacketTest, ADeviceHasABoundOfRules) {
  auto raw = a_->make_raw_qp();
  std::vector<Flow> rules;
  while (rules.size() < a_->context.info().max_flow) {
    rules.push_back(must(raw.create_flow({.priority = static_cast<uint16_t>(rules.size())})));
  }
  EXPECT_EQ(rules.size(), 1024u);
  expect_error(raw.create_flow({}), ENOMEM, "1024");
  rules.pop_back();
  EXPECT_TRUE(raw.create_flow({}));
}

INSTANTIATE_TEST_SUITE_P(Engines, RawPacketTest, testing::Values(1u, 3u));

}  // namespace
}  // namespace uroce
