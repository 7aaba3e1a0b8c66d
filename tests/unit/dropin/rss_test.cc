// Receive work queues, indirection tables and RSS queue pairs (ibv_create_wq(3), ibv_create_rwq_ind_table(3)).
#include <array>
#include <cerrno>
#include <map>

#include "dropin/common/foreign_enum.h"
#include "raw_pair.h"

namespace uroce::dropin {
namespace {

class RssPair : public FlowPair {
 protected:
  static constexpr int kWqs = 2;

  void SetUp() override {
    FlowPair::SetUp();
    for (ibv_wq*& wq : wqs_) ASSERT_NE(wq = make_wq(), nullptr);
    table_ = make_table(wqs_, 1);
    ASSERT_NE(table_, nullptr);
    key_[11] = 0x02;  // bit 63 of the input, the last of two addresses, is the lowest of the hash
  }
  void TearDown() override {
    EXPECT_EQ(ibv_destroy_rwq_ind_table(table_), 0);
    for (ibv_wq* wq : wqs_) EXPECT_EQ(ibv_destroy_wq(wq), 0);
    FlowPair::TearDown();
  }
  ibv_wq* make_wq() {
    ibv_wq_init_attr attr{};
    attr.wq_context = this;
    attr.wq_type = IBV_WQT_RQ;
    attr.max_wr = 5;
    attr.max_sge = 1;
    attr.pd = pd_;
    attr.cq = cq_;
    ibv_wq* wq = ibv_create_wq(context_, &attr);
    EXPECT_GE(attr.max_wr, 5u);
    return wq;
  }
  ibv_rwq_ind_table* make_table(ibv_wq** wqs, uint32_t log_size) {
    ibv_rwq_ind_table_init_attr attr{.log_ind_tbl_size = log_size, .ind_tbl = wqs, .comp_mask = 0};
    return ibv_create_rwq_ind_table(context_, &attr);
  }
  int set_state(ibv_wq* wq, ibv_wq_state state) {
    ibv_wq_attr attr{};
    attr.attr_mask = IBV_WQ_ATTR_STATE;
    attr.wq_state = state;
    return ibv_modify_wq(wq, &attr);
  }
  int post(ibv_wq* wq, uint64_t id) {
    ibv_sge to{reinterpret_cast<uint64_t>(memory_.data()) + 4096, 2048, mr_->lkey};
    ibv_recv_wr wr{id, nullptr, &to, 1};
    ibv_recv_wr* bad = nullptr;
    return ibv_post_wq_recv(wq, &wr, &bad);
  }
  ibv_qp_init_attr_ex rss_attr() {
    ibv_qp_init_attr_ex attr{};
    attr.qp_type = IBV_QPT_RAW_PACKET;
    attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_RX_HASH | IBV_QP_INIT_ATTR_IND_TABLE;
    attr.pd = pd_;
    attr.rwq_ind_tbl = table_;
    attr.rx_hash_conf = {.rx_hash_function = IBV_RX_HASH_FUNC_TOEPLITZ,
                         .rx_hash_key_len = 40,
                         .rx_hash_key = key_.data(),
                         .rx_hash_fields_mask = IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_DST_IPV4};
    return attr;
  }
  void expect_refused(ibv_qp_init_attr_ex attr, int error) {
    errno = 0;
    EXPECT_EQ(ibv_create_qp_ex(context_, &attr), nullptr);
    EXPECT_EQ(errno, error);
  }
  /// Sends a frame to 2.2.2.`host`, and returns who received it.
  uint32_t receiver_of(uint8_t host) {
    write_frame(5678);
    memory_[33] = static_cast<char>(host);
    EXPECT_EQ(send(60), 0);
    uint32_t receiver = 0;
    for (const ibv_wc& wc : poll(2)) {
      EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
      if (wc.opcode == IBV_WC_RECV) receiver = wc.qp_num;
    }
    return receiver;
  }

  ibv_wq* wqs_[kWqs]{};
  ibv_rwq_ind_table* table_ = nullptr;
  std::array<uint8_t, 40> key_{};
};

TEST_F(RssPair, FramesSpreadOverTheWqs) {
  auto attr = rss_attr();
  ibv_qp* qp = ibv_create_qp_ex(context_, &attr);
  ASSERT_NE(qp, nullptr);
  for (ibv_wq* wq : wqs_) {
    EXPECT_EQ(wq->wq_context, this);
    EXPECT_EQ(post(wq, 1), EINVAL) << "in RESET";
    ASSERT_EQ(set_state(wq, IBV_WQS_RDY), 0);
    EXPECT_EQ(wq->state, IBV_WQS_RDY);
    for (uint64_t id = 0; id < 4; ++id) ASSERT_EQ(post(wq, id), 0);
  }
  rule_.attr.num_of_specs = 1;
  ibv_flow* flow = ibv_create_flow(qp, &rule_.attr);
  ASSERT_NE(flow, nullptr);
  for (uint8_t host = 0; host < 8; ++host) EXPECT_EQ(receiver_of(host), wqs_[host % 2]->wq_num) << int{host};
  EXPECT_EQ(ibv_destroy_wq(wqs_[0]), EBUSY) << "a table has it";
  EXPECT_EQ(ibv_destroy_rwq_ind_table(table_), EBUSY) << "a queue pair uses it";
  EXPECT_EQ(ibv_destroy_qp(qp), EBUSY) << "it has a rule";
  EXPECT_EQ(ibv_destroy_flow(flow), 0);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
}

TEST_F(RssPair, AnRssQueuePairHasNoQueues) {
  auto attr = rss_attr();
  attr.cap.max_recv_wr = 7;
  ibv_qp* qp = ibv_create_qp_ex(context_, &attr);
  ASSERT_NE(qp, nullptr);
  EXPECT_EQ(attr.cap.max_recv_wr, 0u);
  EXPECT_EQ(post_recv(qp, 1, 100), EINVAL);
  EXPECT_EQ(post_send(qp, 1, 100), EINVAL);
  ibv_qp_attr state{};
  ibv_qp_init_attr init{};
  EXPECT_EQ(ibv_modify_qp(qp, &state, IBV_QP_STATE), EOPNOTSUPP);
  EXPECT_EQ(ibv_query_qp(qp, &state, IBV_QP_STATE, &init), EOPNOTSUPP);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
}

TEST_F(RssPair, WrongQueuePairsAreRefused) {
  auto attr = rss_attr();
  attr.qp_type = IBV_QPT_UD;
  expect_refused(attr, EINVAL);
  attr = rss_attr();
  attr.comp_mask &= ~uint32_t{IBV_QP_INIT_ATTR_IND_TABLE};
  expect_refused(attr, EINVAL);
  attr = rss_attr();
  attr.send_cq = cq_;
  expect_refused(attr, EINVAL);
  attr = rss_attr();
  attr.rx_hash_conf.rx_hash_key_len = 39;
  expect_refused(attr, EINVAL);
  attr = rss_attr();
  attr.rx_hash_conf.rx_hash_function = 2;
  expect_refused(attr, EOPNOTSUPP);
  attr = rss_attr();
  attr.rx_hash_conf.rx_hash_fields_mask |= IBV_RX_HASH_INNER;
  expect_refused(attr, EOPNOTSUPP);
  attr = rss_attr();
  attr.rx_hash_conf.rx_hash_fields_mask |= IBV_RX_HASH_IPSEC_SPI;
  expect_refused(attr, EOPNOTSUPP);
  attr = rss_attr();
  attr.rwq_ind_tbl = reinterpret_cast<ibv_rwq_ind_table*>(wqs_[0]);
  expect_refused(attr, EINVAL);
}

TEST_F(RssPair, WrongTablesAreRefused) {
  std::array<ibv_wq*, 512> many{};
  many.fill(wqs_[0]);
  errno = 0;
  EXPECT_EQ(make_table(many.data(), 9), nullptr);
  EXPECT_EQ(errno, EINVAL);
  many[255] = reinterpret_cast<ibv_wq*>(table_);
  EXPECT_EQ(make_table(many.data(), 8), nullptr);
  many[255] = wqs_[1];
  ibv_rwq_ind_table* largest = make_table(many.data(), 8);
  ASSERT_NE(largest, nullptr);
  EXPECT_EQ(ibv_destroy_rwq_ind_table(largest), 0);
  EXPECT_EQ(ibv_destroy_rwq_ind_table(reinterpret_cast<ibv_rwq_ind_table*>(wqs_[0])), ENOENT);
}

TEST_F(RssPair, WqsChangeTheirStatesAsLinuxHasIt) {
  ibv_wq* wq = wqs_[0];
  EXPECT_EQ(set_state(wq, IBV_WQS_ERR), EINVAL) << "from RESET";
  EXPECT_EQ(set_state(wq, IBV_WQS_UNKNOWN), EINVAL);
  ibv_wq_attr later{};
  later.attr_mask = IBV_WQ_ATTR_STATE;
  set_number(later.wq_state, 4);
  EXPECT_EQ(ibv_modify_wq(wq, &later), EINVAL);
  ASSERT_EQ(set_state(wq, IBV_WQS_RDY), 0);
  ibv_wq_attr attr{};
  attr.attr_mask = IBV_WQ_ATTR_STATE | IBV_WQ_ATTR_CURR_STATE;
  attr.wq_state = IBV_WQS_ERR;
  attr.curr_wq_state = IBV_WQS_RESET;
  EXPECT_EQ(ibv_modify_wq(wq, &attr), EINVAL) << "it is in RDY";
  attr.attr_mask = IBV_WQ_ATTR_FLAGS;
  EXPECT_EQ(ibv_modify_wq(wq, &attr), EOPNOTSUPP);
  ASSERT_EQ(post(wq, 17), 0);
  ASSERT_EQ(set_state(wq, IBV_WQS_ERR), 0);
  const auto flushed = poll(1);
  ASSERT_EQ(flushed.size(), 1u);
  EXPECT_EQ(flushed[0].wr_id, 17u);
  EXPECT_EQ(flushed[0].status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(flushed[0].qp_num, wq->wq_num);
  EXPECT_EQ(set_state(wq, IBV_WQS_RDY), EINVAL) << "from ERR";
  EXPECT_EQ(set_state(wq, IBV_WQS_RESET), 0);
  EXPECT_EQ(set_state(wq, IBV_WQS_RDY), 0);
}

TEST_F(RssPair, WrongWqsAreRefused) {
  ibv_wq_init_attr attr{};
  attr.pd = pd_;
  errno = 0;
  EXPECT_EQ(ibv_create_wq(context_, &attr), nullptr) << "without a completion queue";
  EXPECT_EQ(errno, EINVAL);
  attr.cq = cq_;
  attr.comp_mask = IBV_WQ_INIT_ATTR_FLAGS;
  attr.create_flags = IBV_WQ_FLAGS_CVLAN_STRIPPING;
  EXPECT_EQ(ibv_create_wq(context_, &attr), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  attr.comp_mask = 0;
  attr.max_sge = 1000;
  EXPECT_EQ(ibv_create_wq(context_, &attr), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_destroy_cq(cq_), EBUSY) << "WQs use it";
}

TEST_F(RssPair, AFullCompletionQueueIsFatalForTheWq) {
  constexpr int kFrames = 80;  // the smallest completion queue has 64 entries
  ibv_cq* full = ibv_create_cq(context_, 1, nullptr, nullptr, 0);
  ibv_wq_init_attr init{};
  init.wq_type = IBV_WQT_RQ;
  init.max_wr = kFrames;
  init.max_sge = 1;
  init.pd = pd_;
  init.cq = full;
  ibv_wq* wq = ibv_create_wq(context_, &init);
  ASSERT_NE(wq, nullptr);
  ASSERT_EQ(set_state(wq, IBV_WQS_RDY), 0);
  ibv_rwq_ind_table* table = make_table(&wq, 0);
  auto attr = rss_attr();
  attr.rwq_ind_tbl = table;
  ibv_qp* qp = ibv_create_qp_ex(context_, &attr);
  ASSERT_NE(qp, nullptr);
  ibv_flow* flow = ibv_create_flow(qp, &rule_.attr);
  ASSERT_NE(flow, nullptr);
  write_frame(5678);
  for (int i = 0; i < kFrames; ++i) {
    ASSERT_EQ(post(wq, 1), 0);
    ASSERT_EQ(send(60), 0);
    ASSERT_EQ(poll(1).size(), 1u);
  }
  ibv_async_event event{};
  do {
    ASSERT_EQ(ibv_get_async_event(context_, &event), 0);
    ibv_ack_async_event(&event);
  } while (event.event_type == IBV_EVENT_CQ_ERR);
  EXPECT_EQ(event.event_type, IBV_EVENT_WQ_FATAL);
  EXPECT_EQ(event.element.wq, wq);
  EXPECT_EQ(ibv_destroy_flow(flow), 0);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_rwq_ind_table(table), 0);
  EXPECT_EQ(ibv_destroy_wq(wq), 0);
  EXPECT_EQ(ibv_destroy_cq(full), 0);
}

TEST_F(RssPair, TheDeviceSaysWhatItHas) {
  ibv_device_attr_ex attr{};
  ASSERT_EQ(ibv_query_device_ex(context_, nullptr, &attr), 0);
  EXPECT_EQ(attr.rss_caps.supported_qpts, 1u << IBV_QPT_RAW_PACKET);
  EXPECT_GT(attr.rss_caps.max_rwq_indirection_tables, 0u);
  EXPECT_EQ(attr.rss_caps.max_rwq_indirection_table_size, 256u);
  EXPECT_EQ(attr.rss_caps.rx_hash_fields_mask, 0xffu);
  EXPECT_EQ(attr.rss_caps.rx_hash_function, IBV_RX_HASH_FUNC_TOEPLITZ);
  EXPECT_GT(attr.max_wq_type_rq, 0u);
}

}  // namespace
}  // namespace uroce::dropin
