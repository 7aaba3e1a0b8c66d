#include "queues/send_queue.h"

#include <cstring>
#include <string>

#include <gtest/gtest.h>

#include "tests/support/test_queues.h"

namespace uroce::queues {
namespace {

constexpr uint32_t kSqEntries = 4;
constexpr uint32_t kQpn = 0x123456;
constexpr QpCap kCap{.max_send_wr = kSqEntries, .max_send_sge = 2, .max_inline_data = 40};

class SendQueueTest : public testing::Test {
 protected:
  explicit SendQueueTest(QpType type = QpType::rc)
      : queue_(ring_.place, type, kCap, flag_, {doorbells_.get(), 16}, kQpn) {}

  const SendWqe& wqe(uint32_t ahead = 0) const { return *reinterpret_cast<const SendWqe*>(consumer_.slot(ahead)); }
  const std::byte* tail(uint32_t ahead = 0) const { return consumer_.slot(ahead) + sizeof(SendWqe); }

  test::OwnedRing ring_{kSqEntries, send_stride(kCap.max_send_sge, kCap.max_inline_data)};
  RingConsumer consumer_{ring_.place};
  test::AlignedBytes doorbells_ = test::make_aligned(doorbell_bytes(16));
  DoorbellReader reader_{doorbells_.get(), 16};
  test::AlignedBytes flag_memory_ = test::make_aligned(sizeof(DoorbellFlag));
  DoorbellFlag* flag_ = reinterpret_cast<DoorbellFlag*>(flag_memory_.get());
  SendQueue queue_;
};

TEST_F(SendQueueTest, WritesTheWholeRequest) {
  const Sge sges[] = {{0x1000, 100, 7}, {0x2000, 200, 8}};
  ASSERT_EQ(queue_.put({.wr_id = 42,
                        .opcode = WrOpcode::compare_swap,
                        .flags = SendFlag::signaled | SendFlag::fence,
                        .sges = sges,
                        .imm_or_key = 0xabcd,
                        .remote_addr = 0x123456789,
                        .rkey = 99,
                        .compare_add = 5,
                        .swap = 6}),
            0);
  EXPECT_EQ(consumer_.available(), 0u);  // not before commit()
  EXPECT_FALSE(queue_.commit());
  ASSERT_EQ(consumer_.available(), 1u);
  EXPECT_EQ(wqe().wr_id, 42u);
  EXPECT_EQ(wqe().opcode, static_cast<uint8_t>(WrOpcode::compare_swap));
  EXPECT_EQ(wqe().flags, (SendFlag::signaled | SendFlag::fence).bits());
  EXPECT_EQ(wqe().num_sge, 2);
  EXPECT_EQ(wqe().inline_length, 0);
  EXPECT_EQ(wqe().imm_or_key, 0xabcdu);
  EXPECT_EQ(wqe().remote_addr, 0x123456789u);
  EXPECT_EQ(wqe().rkey, 99u);
  EXPECT_EQ(wqe().atomic.compare_add, 5u);
  EXPECT_EQ(wqe().atomic.swap, 6u);
  EXPECT_EQ(std::memcmp(tail(), sges, sizeof sges), 0);
}

TEST_F(SendQueueTest, WritesWhatAFlushIsAbout) {
  const FlushTarget target{
      .length = 77, .placement = Placement::global | Placement::persistent, .scope = FlushScope::region};
  ASSERT_EQ(queue_.put({.opcode = WrOpcode::flush, .remote_addr = 0x10, .rkey = 9, .flush = target}), 0);
  ASSERT_EQ(queue_.put({.opcode = WrOpcode::atomic_write, .remote_addr = 0x18, .rkey = 9, .swap = 5}), 0);
  queue_.commit();
  EXPECT_EQ(wqe(0).placement_flush.length, 77u);
  EXPECT_EQ(wqe(0).placement_flush.placement, 3u);
  EXPECT_EQ(wqe(0).placement_flush.scope, 1u);
  EXPECT_EQ(wqe(1).atomic.swap, 5u);
  EXPECT_EQ(wqe(1).num_sge, 0);
}

TEST_F(SendQueueTest, RefusesAFlushOfNothingKnown) {
  const auto flush = [&](uint32_t placement, int scope) {
    const FlushTarget target{
        .length = 1, .placement = PlacementFlags::from_bits(placement), .scope = static_cast<FlushScope>(scope)};
    return queue_.put({.opcode = WrOpcode::flush, .flush = target});
  };
  EXPECT_EQ(flush(0, 0), EINVAL);
  EXPECT_EQ(flush(4, 0), EINVAL);
  EXPECT_EQ(flush(1, 2), EINVAL);
  EXPECT_EQ(flush(2, 1), 0);
}

TEST_F(SendQueueTest, FlushAndAtomicWriteHaveNoBuffers) {
  std::byte bytes[8] = {};
  const Sge one{reinterpret_cast<uint64_t>(bytes), 8, 1};
  for (const WrOpcode opcode : {WrOpcode::flush, WrOpcode::atomic_write}) {
    EXPECT_EQ(queue_.put({.opcode = opcode, .sges = {&one, 1}}), EINVAL);
    EXPECT_EQ(queue_.put({.opcode = opcode, .flags = SendFlag::inline_data, .inline_data = {bytes, 8}}), EINVAL);
  }
}

TEST_F(SendQueueTest, InlinePayloadComesFromEitherPlace) {
  const std::string text = "0123456789";
  const auto bytes = std::as_bytes(std::span(text));
  ASSERT_EQ(queue_.put({.flags = SendFlag::inline_data, .inline_data = bytes}), 0);
  const Sge sges[] = {
      {reinterpret_cast<uint64_t>(text.data()), 4, 0}, {0, 0, 0}, {reinterpret_cast<uint64_t>(text.data()) + 6, 4, 0}};
  ASSERT_EQ(queue_.put({.flags = SendFlag::inline_data, .sges = sges}), 0);
  ASSERT_EQ(queue_.put({.flags = SendFlag::inline_data}), 0);
  queue_.commit();
  EXPECT_EQ(wqe(0).inline_length, 10);
  EXPECT_EQ(wqe(0).num_sge, 0);
  EXPECT_EQ(std::memcmp(tail(0), "0123456789", 10), 0);
  EXPECT_EQ(wqe(1).inline_length, 8);
  EXPECT_EQ(std::memcmp(tail(1), "01236789", 8), 0);
  EXPECT_EQ(wqe(2).inline_length, 0);
}

TEST_F(SendQueueTest, RefusesWhatDoesNotFit) {
  std::byte bytes[64] = {};
  const Sge one{reinterpret_cast<uint64_t>(bytes), 41, 1};
  const Sge huge[] = {{reinterpret_cast<uint64_t>(bytes), 0xffffffff, 1}, {reinterpret_cast<uint64_t>(bytes), 2, 1}};
  const Sge three[3] = {};
  EXPECT_EQ(queue_.put({.sges = three}), EINVAL);
  EXPECT_EQ(queue_.put({.flags = SendFlag::inline_data, .inline_data = {bytes, 41}}), EINVAL);
  EXPECT_EQ(queue_.put({.flags = SendFlag::inline_data, .sges = {&one, 1}}), EINVAL);
  EXPECT_EQ(queue_.put({.flags = SendFlag::inline_data, .sges = huge}), EINVAL);
  EXPECT_EQ(queue_.put({.flags = SendFlag::inline_data, .sges = {&one, 1}, .inline_data = {bytes, 1}}), EINVAL);
  EXPECT_EQ(queue_.put({.inline_data = {bytes, 1}}), EINVAL);  // without the flag
  for (const WrOpcode opcode : {WrOpcode::rdma_read, WrOpcode::compare_swap, WrOpcode::fetch_add}) {
    EXPECT_EQ(queue_.put({.opcode = opcode, .flags = SendFlag::inline_data, .inline_data = {bytes, 8}}), EINVAL);
  }
  EXPECT_FALSE(queue_.commit());
  EXPECT_EQ(consumer_.available(), 0u);
  EXPECT_EQ(reader_.take(), 0u);
}

TEST_F(SendQueueTest, FillsUpAndGoesOnWhenSlotsComeBack) {
  for (int round = 0; round < 10; ++round) {
    for (uint32_t i = 0; i < kSqEntries; ++i) ASSERT_EQ(queue_.put({.wr_id = i}), 0);
    EXPECT_EQ(queue_.put({}), ENOMEM);
    queue_.commit();
    EXPECT_EQ(queue_.put({}), ENOMEM);
    EXPECT_EQ(wqe(3).wr_id, 3u);
    consumer_.consume(1);
    ASSERT_EQ(queue_.put({}), 0);
    EXPECT_EQ(queue_.put({}), ENOMEM);
    queue_.commit();
    consumer_.consume(kSqEntries);
  }
}

TEST_F(SendQueueTest, RingsOncePerCommitAndOnlyWhenTheFlagIsClear) {
  queue_.put({});
  queue_.put({});
  queue_.commit();
  EXPECT_EQ(reader_.take(), kQpn);
  EXPECT_EQ(reader_.take(), 0u);
  queue_.put({});
  queue_.commit();  // the engine has not cleared the flag yet
  EXPECT_EQ(reader_.take(), 0u);
  flag_->rung = 0;
  queue_.put({});
  queue_.commit();
  EXPECT_EQ(reader_.take(), kQpn);
}

TEST_F(SendQueueTest, TellsWhenTheEngineMustBeWoken) {
  reader_.set_sleeping(true);
  queue_.put({});
  EXPECT_TRUE(queue_.commit());
  EXPECT_FALSE(queue_.commit());
  queue_.put({});
  EXPECT_FALSE(queue_.commit());  // rung already
}

TEST_F(SendQueueTest, UnknownFlagsDoNotReachTheRing) {
  queue_.put({.flags = SendFlags::from_bits(0xffff0003)});
  queue_.commit();
  EXPECT_EQ(wqe().flags, 3u);
}

TEST(SendOpcodes, EveryTypeTakesItsOwn) {
  test::OwnedRing ring{16, send_stride(kCap.max_send_sge, kCap.max_inline_data)};
  for (const QpType type : {QpType::rc, QpType::uc, QpType::ud}) {
    SendQueue queue(ring.place, type, kCap, nullptr, {}, kQpn);
    for (int i = 0; i < 16; ++i) {
      const auto opcode = static_cast<WrOpcode>(i);
      EXPECT_EQ(queue.put({.opcode = opcode}), offers(type, opcode) ? 0 : EINVAL) << i;
    }
  }
}

TEST_F(SendQueueTest, OpcodesBeyondTheTableAreRefused) {
  for (int opcode = 16; opcode < 256; ++opcode) {
    EXPECT_EQ(queue_.put({.opcode = static_cast<WrOpcode>(opcode)}), EINVAL);
  }
}

TEST_F(SendQueueTest, LocalOperationsCarryNoPayload) {
  const Sge sge{1, 2, 3};
  for (const WrOpcode opcode : {WrOpcode::local_invalidate, WrOpcode::bind_mw}) {
    EXPECT_EQ(queue_.put({.opcode = opcode, .sges = {&sge, 1}}), EINVAL);
    EXPECT_EQ(queue_.put({.opcode = opcode, .flags = SendFlag::inline_data}), EINVAL);
  }
}

TEST_F(SendQueueTest, ABindIsWrittenInFull) {
  EXPECT_EQ(queue_.put({.wr_id = 9,
                        .opcode = WrOpcode::bind_mw,
                        .bind = {.rkey = 1, .lkey = 2, .addr = 3, .length = 4, .access = Access::remote_read}}),
            0);
  queue_.commit();
  EXPECT_EQ(wqe().imm_or_key, 1u);
  EXPECT_EQ(wqe().rkey, 2u);
  EXPECT_EQ(wqe().remote_addr, 3u);
  EXPECT_EQ(wqe().bind.length, 4u);
  EXPECT_EQ(wqe().bind.access, AccessFlags(Access::remote_read).bits());
}

}  // namespace
}  // namespace uroce::queues
