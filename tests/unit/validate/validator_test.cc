// Whole calls, with memory that the tests change as a program would.
#include "validate/validator.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace uroce::validate {
namespace {

std::vector<std::byte> memory(65536);

ReadResult read_memory(uint64_t address, std::span<std::byte> to) {
  if (address + to.size() > memory.size()) return ReadResult::not_mapped;
  std::memcpy(to.data(), memory.data() + address, to.size());
  return ReadResult::read;
}

constexpr int kDevice = 0, kDomain = 0, kCq = 0, kQp = 0, kSrq = 0;
constexpr uint32_t kKey = 5, kNumber = 0x11;

class ValidatorTest : public testing::Test {
 protected:
  ValidatorTest() {
    validator_.add_region({&kDevice, kKey}, {.domain = &kDomain,
                                             .base = 0,
                                             .length = 2 * memory.size(),
                                             .in_memory = true,
                                             .memory = 0,
                                             .local_write = true});
    validator_.add_cq(&kCq, {.device = &kDevice, .number = 3, .entries = 4});
    add_qp({});
  }
  /// A queue pair in RTS.
  void add_qp(QpFacts facts) {
    facts.device = &kDevice;
    facts.number = kNumber;
    facts.cap = {4, 4, 2, 2, 64};
    facts.domain = &kDomain;
    facts.send_cq = facts.recv_cq = &kCq;
    validator_.add_qp(&kQp, facts);
    validator_.set_state(&kQp, QpState::rts);
  }
  static std::vector<Misuse> of(const Found& found) {
    std::vector<Misuse> misuses;
    for (const Finding& one : found) misuses.push_back(one.misuse);
    return misuses;
  }
  std::vector<Misuse> send(uint64_t wr_id, Sge sge = {0, 64, kKey}, SendRequest request = {},
                           SendFlags flags = SendFlag::signaled) {
    request.wr_id = wr_id;
    request.flags = flags;
    request.sges = {&sge, 1};
    return of(validator_.post_send(&kQp, request));
  }
  std::vector<Misuse> receive(uint64_t wr_id, Sge sge) {
    return of(validator_.post_receive(&kQp, {.wr_id = wr_id, .sges = {&sge, 1}}));
  }
  std::vector<Misuse> sent(uint64_t wr_id, bool success = true) {
    return of(validator_.completed(&kCq, {.wr_id = wr_id, .qpn = kNumber, .success = success}));
  }
  void received(uint64_t wr_id) {
    validator_.completed(&kCq, {.wr_id = wr_id, .qpn = kNumber, .success = true, .receive = true});
  }

  Validator validator_{read_memory};
};

using List = std::vector<Misuse>;

TEST_F(ValidatorTest, TrafficWithoutFault) {
  for (uint64_t i = 0; i < 100; ++i) {
    EXPECT_EQ(receive(i, {4096, 64, kKey}), List{});
    EXPECT_EQ(send(i), List{});
    EXPECT_EQ(sent(i), List{});
    received(i);
  }
  EXPECT_EQ(validator_.requests(), 200u);
}

TEST_F(ValidatorTest, BufferChangedWhileInFlight) {
  send(1);
  memory[10] ^= std::byte{1};
  EXPECT_EQ(sent(1), List{Misuse::buffer_changed});
  memory[10] ^= std::byte{1};
  EXPECT_EQ(sent(1), List{}) << "it is over";
}

TEST_F(ValidatorTest, SuccessEndsEarlierUnsignalledRequests) {
  send(1, {0, 64, kKey}, {}, {});
  send(2, {128, 64, kKey});
  memory[10] ^= std::byte{1};
  EXPECT_EQ(sent(2), List{Misuse::buffer_changed});
  EXPECT_EQ(validator_.region_goes({&kDevice, kKey}, "ibv_dereg_mr()").size(), 0u);
}

TEST_F(ValidatorTest, AnErrorSaysNothingAboutBuffers) {
  send(1);
  memory[10] ^= std::byte{1};
  EXPECT_EQ(sent(1, false), List{});
}

TEST_F(ValidatorTest, InlineBuffersMayChange) {
  EXPECT_EQ(send(1, {0, 64, 99}, {}, SendFlag::signaled | SendFlag::inline_data), List{});
  memory[10] ^= std::byte{1};
  EXPECT_EQ(sent(1), List{});
  EXPECT_EQ(send(2, {0, 65, 99}, {}, SendFlag::inline_data), List{Misuse::inline_too_long});
}

TEST_F(ValidatorTest, MemoryThatIsGone) { EXPECT_EQ(send(1, {memory.size(), 64, kKey}), List{Misuse::memory_gone}); }

TEST_F(ValidatorTest, OverlapOfReceivesAndReads) {
  EXPECT_EQ(receive(1, {0, 64, kKey}), List{});
  EXPECT_EQ(receive(2, {63, 64, kKey}), List{Misuse::buffer_overlap});
  EXPECT_EQ(send(3, {100, 64, kKey}, {.opcode = WrOpcode::rdma_read}), List{Misuse::buffer_overlap});
  received(1);
  received(2);
  sent(3);
  EXPECT_EQ(receive(4, {63, 64, kKey}), List{});
  EXPECT_EQ(receive(5, {63, 64, kKey}), List{Misuse::buffer_repeated});
  validator_.remove_qp(&kQp);
  add_qp({});
  EXPECT_EQ(receive(6, {0, 640, kKey}), List{}) << "its requests went with it";
}

TEST_F(ValidatorTest, RefusedRequestsAreTakenBack) {
  receive(1, {0, 64, kKey});
  validator_.unpost_receive(&kQp, 1);
  EXPECT_EQ(receive(1, {0, 64, kKey}), List{});
  send(2, {0, 64, kKey}, {.opcode = WrOpcode::rdma_read});
  validator_.unpost_send(&kQp, 1);
  validator_.unpost_receive(&kQp, 1);
  EXPECT_EQ(validator_.region_goes({&kDevice, kKey}, "ibv_dereg_mr()").size(), 0u);
}

TEST_F(ValidatorTest, RegionInUse) {
  receive(1, {0, 64, kKey});
  const auto found = validator_.region_goes({&kDevice, kKey}, "ibv_dereg_mr()");
  ASSERT_EQ(of(found), List{Misuse::region_in_use});
  EXPECT_EQ(found[0].text,
            "ibv_dereg_mr() of the region with lkey 0x5, which 1 posted requests use, first of queue pair 0x11");
  validator_.set_state(&kQp, QpState::error);
  EXPECT_EQ(validator_.region_goes({&kDevice, kKey}, "ibv_dereg_mr()").size(), 0u) << "all is flushed";
}

TEST_F(ValidatorTest, RegionInUseByASharedReceiveQueue) {
  validator_.add_srq(&kSrq, {.device = &kDevice, .number = 1, .domain = &kDomain, .max_sge = 1});
  const Sge sge{0, 64, kKey};
  validator_.post_srq_receive(&kSrq, {.wr_id = 1, .sges = {&sge, 1}});
  EXPECT_EQ(validator_.region_goes({&kDevice, kKey}, "ibv_dereg_mr()").size(), 0u) << "no queue pair takes from it";
  add_qp({.srq = &kSrq});
  EXPECT_EQ(validator_.region_goes({&kDevice, kKey}, "ibv_dereg_mr()").size(), 1u);
  EXPECT_EQ(receive(2, {64, 64, kKey}), List{Misuse::receive_with_srq});
  received(1);
  EXPECT_EQ(of(validator_.post_srq_receive(&kSrq, {.wr_id = 1, .sges = {&sge, 1}})), List{});
}

TEST_F(ValidatorTest, CompletionQueueThatOverflows) {
  for (uint64_t i = 0; i < 3; ++i) EXPECT_EQ(receive(i, {i * 64, 64, kKey}), List{});
  EXPECT_EQ(send(4, {0, 64, kKey}, {}, {}), List{}) << "it completes in error alone";
  EXPECT_EQ(send(5, {0, 64, kKey}), List{});
  EXPECT_EQ(send(6, {0, 64, kKey}), List{Misuse::cq_overrun});
  sent(5);
  received(0);
  EXPECT_EQ(receive(7, {0, 64, kKey}), List{});
}

TEST_F(ValidatorTest, QueueWithoutSignals) {
  for (uint64_t i = 0; i < 3; ++i) EXPECT_EQ(send(i, {0, 64, kKey}, {}, {}), List{});
  EXPECT_EQ(send(3, {0, 64, kKey}, {}, {}), List{Misuse::never_signalled});
}

TEST_F(ValidatorTest, States) {
  for (const QpState state : {QpState::reset, QpState::init, QpState::rtr}) {
    validator_.set_state(&kQp, state);
    EXPECT_EQ(send(1), List{Misuse::send_state});
    validator_.unpost_send(&kQp, 1);
  }
  validator_.set_state(&kQp, QpState::reset);
  EXPECT_EQ(receive(1, {0, 64, kKey}), List{Misuse::receive_state});
}

TEST_F(ValidatorTest, Operations) {
  EXPECT_EQ(send(1, {0, 8, kKey}, {.opcode = WrOpcode::fetch_add, .remote_addr = 4}), List{Misuse::atomic_unaligned});
  sent(1);
  EXPECT_EQ(send(1, {0, 4, kKey}, {.opcode = WrOpcode::fetch_add}), List{Misuse::atomic_length});
  sent(1);
  validator_.set_operations(&kQp, 1u << static_cast<unsigned>(WrOpcode::send));
  EXPECT_EQ(send(1, {0, 8, kKey}, {.opcode = WrOpcode::rdma_write}), List{Misuse::undeclared_operation});
  sent(1);
  add_qp({.type = QpType::ud, .datagram_limit = 1024});
  EXPECT_EQ(send(1, {0, 8, kKey}, {.opcode = WrOpcode::rdma_write}), List{Misuse::wrong_opcode});
  EXPECT_EQ(send(1, {0, 1025, kKey}), List{Misuse::datagram_too_long});
  add_qp({});
  validator_.set_max_rd_atomic(&kQp, 0);
  EXPECT_EQ(send(1, {0, 8, kKey}, {.opcode = WrOpcode::rdma_read}), List{Misuse::no_reads});
}

TEST_F(ValidatorTest, EntriesBeyondTheMost) {
  const Sge sges[] = {{0, 1, kKey}, {64, 1, kKey}, {128, 1, kKey}};
  EXPECT_EQ(of(validator_.post_send(&kQp, {.sges = sges})), List{Misuse::too_many_sges});
  EXPECT_EQ(of(validator_.post_receive(&kQp, {.sges = sges})), List{Misuse::too_many_sges});
  // A list may be shorter than the program says.
  EXPECT_EQ(of(validator_.post_receive(&kQp, {.sges = {sges + 3, 1000}})), List{Misuse::too_many_sges});
  EXPECT_EQ(of(validator_.post_send(&kQp, {.flags = SendFlag::inline_data, .sges = {sges + 3, 1000}})),
            List{Misuse::too_many_sges});
}

TEST_F(ValidatorTest, AddressHandleInFlight) {
  add_qp({.type = QpType::ud});
  send(1, {0, 64, kKey}, {.ah = 9});
  EXPECT_EQ(validator_.ah_goes(&kDevice, 8).size(), 0u);
  EXPECT_EQ(of(validator_.ah_goes(&kDevice, 9)), List{Misuse::ah_in_flight});
  sent(1);
  EXPECT_EQ(validator_.ah_goes(&kDevice, 9).size(), 0u);
}

TEST_F(ValidatorTest, AnXrcTargetTakesFromItsDomainsQueues) {
  validator_.add_srq(&kSrq, {.device = &kDevice, .domain = &kDomain, .max_sge = 1, .cq = &kCq});
  const Sge sge{0, 64, kKey};
  validator_.post_srq_receive(&kSrq, {.wr_id = 1, .sges = {&sge, 1}});
  validator_.completed(&kCq, {.wr_id = 1, .qpn = 0x99, .success = true, .receive = true});
  EXPECT_EQ(of(validator_.post_srq_receive(&kSrq, {.wr_id = 1, .sges = {&sge, 1}})), List{});
}

}  // namespace
}  // namespace uroce::validate
