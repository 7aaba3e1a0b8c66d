// Raw packet queue pairs and ibv_create_flow() of the drop-in library.
#include <cerrno>
#include <cstring>

#include "raw_pair.h"

namespace uroce::dropin {
namespace {

TEST_F(FlowPair, AFrameArrivesByItsRule) {
  ibv_flow* flow = create();
  ASSERT_NE(flow, nullptr);
  EXPECT_EQ(flow->context, context_);
  ibv_sge to{reinterpret_cast<uint64_t>(memory_.data()) + 4096, 2048, mr_->lkey};
  ibv_recv_wr receive{.wr_id = 2, .next = nullptr, .sg_list = &to, .num_sge = 1};
  ibv_recv_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_recv(raw_[1], &receive, &bad), 0);
  write_frame(5677);
  ASSERT_EQ(send(60), 0);
  EXPECT_EQ(poll(1)[0].wr_id, 1u) << "no rule takes it";
  write_frame(5678);
  ASSERT_EQ(send(60), 0);
  for (const ibv_wc& wc : poll(2)) {
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    if (wc.wr_id != 2) continue;
    EXPECT_EQ(wc.opcode, IBV_WC_RECV);
    EXPECT_EQ(wc.byte_len, 60u);
    EXPECT_EQ(wc.wc_flags, 0u);
  }
  EXPECT_EQ(std::memcmp(memory_.data() + 4096, memory_.data(), 60), 0);
  EXPECT_EQ(ibv_destroy_qp(raw_[1]), EBUSY) << "a rule uses it";
  EXPECT_EQ(ibv_destroy_flow(flow), 0);
}

TEST_F(FlowPair, ACompletionHasTheTagsOfItsFrameAndItsRule) {
  ibv_cq_init_attr_ex of_cq{};
  of_cq.cqe = 4;
  of_cq.wc_flags = IBV_WC_EX_WITH_CVLAN | IBV_WC_EX_WITH_FLOW_TAG;
  ibv_cq_ex* cq = ibv_create_cq_ex(context_, &of_cq);
  ASSERT_NE(cq, nullptr);
  ibv_qp* receiver = make_raw(ibv_cq_ex_to_cq(cq));
  ibv_flow* flow = create_with(
      receiver, ibv_flow_spec_action_tag{.type = IBV_FLOW_SPEC_ACTION_TAG, .size = 12, .tag_id = 0xfedcba98});
  ASSERT_NE(flow, nullptr);
  write_frame(5678);
  char* const frame = memory_.data();
  std::memmove(frame + 16, frame + 12, 60 - 12);
  std::memcpy(frame + 12, "\x81\x00\x60\x05", 4);
  ASSERT_EQ(post_recv(receiver, 3, 2048), 0);
  ASSERT_EQ(send(64), 0);
  ASSERT_EQ(poll(1).size(), 1u);
  ibv_poll_cq_attr none{};
  const auto until = Clock::now() + 20s;
  int polled = ENOENT;
  while ((polled = ibv_start_poll(cq, &none)) == ENOENT && Clock::now() < until) {
  }
  ASSERT_EQ(polled, 0);
  EXPECT_EQ(cq->wr_id, 3u);
  EXPECT_EQ(ibv_wc_read_cvlan(cq), 0x6005);
  EXPECT_EQ(ibv_wc_read_flow_tag(cq), 0xfedcba98u);
  ibv_end_poll(cq);
  EXPECT_EQ(ibv_destroy_flow(flow), 0);
  EXPECT_EQ(ibv_destroy_qp(receiver), 0);
  EXPECT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}

TEST_F(FlowPair, ATagThatIsCutShortIsRefused) {
  errno = 0;
  EXPECT_EQ(create_with(raw_[1], ibv_flow_spec_action_tag{.type = IBV_FLOW_SPEC_ACTION_TAG, .size = 8, .tag_id = 1}),
            nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(FlowPair, TagMatchingIsRefused) {
  ibv_cq_init_attr_ex of_cq{};
  of_cq.cqe = 4;
  of_cq.wc_flags = IBV_WC_EX_WITH_TM_INFO;
  errno = 0;
  EXPECT_EQ(ibv_create_cq_ex(context_, &of_cq), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  ibv_device_attr_ex attr{};
  ASSERT_EQ(ibv_query_device_ex(context_, nullptr, &attr), 0);
  EXPECT_EQ(attr.tm_caps.max_num_tags, 0u);
}

TEST_F(FlowPair, WrongAttributesAreRefused) {
  rule_.attr.port = 2;
  expect_refused(EINVAL);
  rule_.attr.port = 1;
  rule_.attr.flags = IBV_FLOW_ATTR_FLAGS_EGRESS;
  expect_refused(EOPNOTSUPP);
  rule_.attr.flags = 0;
  rule_.attr.comp_mask = 1;
  expect_refused(EINVAL);
  rule_.attr.comp_mask = 0;
  rule_.attr.type = static_cast<ibv_flow_attr_type>(4);
  expect_refused(EINVAL);
  rule_.attr.type = IBV_FLOW_ATTR_SNIFFER;
  expect_refused(EINVAL);
  rule_.attr.type = IBV_FLOW_ATTR_NORMAL;
  rule_.ip.size = 4;
  expect_refused(EINVAL);
  rule_.ip.size = sizeof rule_.ip;
  rule_.ip.type = IBV_FLOW_SPEC_GRE;
  expect_refused(EOPNOTSUPP);
  rule_.ip.type = static_cast<ibv_flow_spec_type>(IBV_FLOW_SPEC_IPV4_EXT | IBV_FLOW_SPEC_INNER);
  expect_refused(EOPNOTSUPP);
  rule_.ip.type = IBV_FLOW_SPEC_IPV4_EXT;
  errno = 0;
  EXPECT_EQ(ibv_create_flow(qp_[0], &rule_.attr), nullptr) << "an RC queue pair";
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(FlowPair, ADeadRuleIsRefused) {
  ibv_flow* flow = create();
  ASSERT_NE(flow, nullptr);
  flow->handle ^= 1;
  EXPECT_EQ(ibv_destroy_flow(flow), ENOENT);
  flow->handle ^= 1;
  EXPECT_EQ(ibv_destroy_flow(flow), 0);
}

TEST_F(FlowPair, RawPacketsHaveNoRateLimit) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTS;
  attr.rate_limit = 5000;
  EXPECT_EQ(ibv_modify_qp(raw_[0], &attr, IBV_QP_STATE | IBV_QP_RATE_LIMIT), EOPNOTSUPP);
  ibv_qp_rate_limit_attr rate{};
  EXPECT_EQ(ibv_modify_qp_rate_limit(raw_[0], &rate), EOPNOTSUPP);
}

TEST_F(FlowPair, TheDeviceSaysWhatItHas) {
  ibv_device_attr_ex attr{};
  ASSERT_EQ(ibv_query_device_ex(context_, nullptr, &attr), 0);
  EXPECT_GT(attr.orig_attr.max_raw_ethy_qp, 0);
  EXPECT_EQ(attr.raw_packet_caps, 0u) << "no stripping, no FCS, no checksums";
}

}  // namespace
}  // namespace uroce::dropin
