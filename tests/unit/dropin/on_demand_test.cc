// On-demand regions through the drop-in library.
#include <sys/mman.h>

#include <cerrno>

#include "pair.h"

namespace uroce::dropin {
namespace {

constexpr int kOnDemand = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND;

class OnDemand : public Pair {
 protected:
  void SetUp() override {
    Pair::SetUp();
    other_.resize(3 * 4096);
  }
  ibv_mr* implicit() { return ibv_reg_mr(pd_, nullptr, SIZE_MAX, kOnDemand); }
  ibv_sge other(std::size_t offset, uint32_t length, const ibv_mr* mr) {
    return {reinterpret_cast<uint64_t>(other_.data()) + offset, length, mr->lkey};
  }
  int send(ibv_sge list) {
    ibv_send_wr wr{};
    wr.sg_list = &list;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = IBV_SEND_SIGNALED;
    ibv_send_wr* bad = nullptr;
    return ibv_post_send(qp_[0], &wr, &bad);
  }
  int receive(ibv_sge list) {
    ibv_recv_wr wr{0, nullptr, &list, 1};
    ibv_recv_wr* bad = nullptr;
    return ibv_post_recv(qp_[1], &wr, &bad);
  }
  void expect_two_successes() {
    const auto done = poll(2);
    ASSERT_EQ(done.size(), 2u);
    for (const ibv_wc& wc : done) EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  }
  int advise(ibv_advise_mr_advice advice, ibv_sge list, ibv_pd* pd = nullptr) {
    return ibv_advise_mr(pd != nullptr ? pd : pd_, advice, IBV_ADVISE_MR_FLAG_FLUSH, &list, 1);
  }
  std::vector<char> other_;
};

TEST_F(OnDemand, TheDeviceTellsWhatItHas) {
  ibv_device_attr_ex attr{};
  ASSERT_EQ(ibv_query_device_ex(context_, nullptr, &attr), 0);
  EXPECT_EQ(attr.odp_caps.general_caps, uint64_t{IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT});
  EXPECT_NE(attr.odp_caps.per_transport_caps.rc_odp_caps & IBV_ODP_SUPPORT_ATOMIC, 0u);
  EXPECT_EQ(attr.odp_caps.per_transport_caps.uc_odp_caps & IBV_ODP_SUPPORT_READ, 0u);
  EXPECT_EQ(attr.odp_caps.per_transport_caps.ud_odp_caps & IBV_ODP_SUPPORT_WRITE, 0u);
}

TEST_F(OnDemand, AnExplicitRegionIsLikeAnyOther) {
  ibv_mr* mr = ibv_reg_mr(pd_, other_.data(), other_.size(), kOnDemand);
  ASSERT_NE(mr, nullptr);
  memory_[0] = 'q';
  ASSERT_EQ(receive(other(4096, 1, mr)), 0);
  ASSERT_EQ(post_send(qp_[0], 1, 1), 0);
  expect_two_successes();
  EXPECT_EQ(other_[4096], 'q');
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

TEST_F(OnDemand, AnImplicitRegionIsAllMemory) {
  ibv_mr* mr = implicit();
  ASSERT_NE(mr, nullptr) << errno;
  static char elsewhere[64] = "static data";
  const auto of_static = ibv_sge{reinterpret_cast<uint64_t>(elsewhere), sizeof(elsewhere), mr->lkey};
  for (std::size_t at : {std::size_t{0}, std::size_t{5000}, std::size_t{0}}) {
    std::fill(other_.begin(), other_.end(), 'o');
    ASSERT_EQ(receive(other(at, sizeof(elsewhere), mr)), 0);
    ASSERT_EQ(send(of_static), 0);
    expect_two_successes();
    EXPECT_STREQ(&other_[at], "static data");
  }
  // Ordinary keys still serve beside it, and so does the other way to post.
  ASSERT_EQ(post_recv(qp_[1], 1, 64), 0);
  ibv_qp_ex* extended = ibv_qp_to_qp_ex(qp_[0]);
  ibv_wr_start(extended);
  extended->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_send(extended);
  ibv_wr_set_sge(extended, of_static.lkey, of_static.addr, of_static.length);
  ASSERT_EQ(ibv_wr_complete(extended), 0);
  expect_two_successes();
  EXPECT_STREQ(&memory_[kBytes / 2], "static data");
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

TEST_F(OnDemand, AnImplicitRegionFollowsWhatIsMapped) {
  ibv_mr* mr = implicit();
  ASSERT_NE(mr, nullptr);
  void* const wanted = mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(wanted, MAP_FAILED);
  for (char letter : {'a', 'b', 'c'}) {
    // Shared from the second round on: another mapping in the same place.
    const int kind = letter == 'a' ? MAP_PRIVATE : MAP_SHARED;
    auto* at = static_cast<char*>(mmap(wanted, 8192, PROT_READ | PROT_WRITE, kind | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
    ASSERT_EQ(at, wanted);
    at[5000] = letter;
    ASSERT_EQ(post_recv(qp_[1], 1, 64), 0);
    ASSERT_EQ(send({reinterpret_cast<uint64_t>(at) + 5000, 1, mr->lkey}), 0);
    expect_two_successes();
    EXPECT_EQ(memory_[kBytes / 2], letter);
  }
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  munmap(wanted, 8192);
}

TEST_F(OnDemand, AnImplicitRegionIsForThisSide) {
  EXPECT_EQ(ibv_reg_mr(pd_, nullptr, SIZE_MAX, kOnDemand | IBV_ACCESS_REMOTE_READ), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  ibv_mr* mr = implicit();
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, other_.data(), 64, 0), IBV_REREG_MR_ERR_CMD);
  EXPECT_EQ(send({UINT64_MAX - 100, 64, mr->lkey}), EFAULT);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

TEST_F(OnDemand, AdviceIsChecked) {
  ibv_mr* mr = ibv_reg_mr(pd_, other_.data(), other_.size(), kOnDemand);
  ibv_mr* read_only = ibv_reg_mr(pd_, other_.data(), other_.size(), IBV_ACCESS_ON_DEMAND);
  ibv_mr* everything = implicit();
  ibv_pd* pd = ibv_alloc_pd(context_);
  ASSERT_TRUE(mr != nullptr && read_only != nullptr && everything != nullptr && pd != nullptr);
  const auto read = IBV_ADVISE_MR_ADVICE_PREFETCH, write = IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;
  for (const auto advice : {read, write, IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT}) {
    EXPECT_EQ(advise(advice, other(0, 3 * 4096, mr)), 0) << advice;
    EXPECT_EQ(advise(advice, other(0, 3 * 4096, everything)), 0) << advice;
  }
  EXPECT_EQ(advise(write, other(0, 8, read_only)), EPERM);
  EXPECT_EQ(advise(read, other(0, 8, read_only)), 0);
  EXPECT_EQ(advise(read, other(0, 3 * 4096 + 1, mr)), EFAULT);
  ibv_mr* ordinary = ibv_reg_mr(pd_, other_.data(), other_.size(), IBV_ACCESS_LOCAL_WRITE);
  ibv_mr* source = ibv_reg_mr(pd_, other_.data(), other_.size(), 0);
  ASSERT_TRUE(ordinary != nullptr && source != nullptr);
  for (const auto advice : {read, write, IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT}) {
    EXPECT_EQ(advise(advice, other(0, 3 * 4096, ordinary)), 0) << "an ordinary region's pages are there: " << advice;
  }
  EXPECT_EQ(advise(write, other(0, 8, source)), EPERM);
  EXPECT_EQ(advise(read, other(0, 3 * 4096 + 1, ordinary)), EFAULT);
  EXPECT_EQ(ibv_rereg_mr(source, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, IBV_ACCESS_LOCAL_WRITE), 0);
  EXPECT_EQ(advise(write, other(0, 8, source)), 0);
  EXPECT_EQ(advise(read, other(0, 8, mr), pd), EPERM);
  EXPECT_EQ(advise(static_cast<ibv_advise_mr_advice>(77), other(0, 8, mr)), EOPNOTSUPP);
  ibv_sge list = other(0, 8, mr);
  EXPECT_EQ(ibv_advise_mr(pd_, read, 1 << 7, &list, 1), EINVAL);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  EXPECT_EQ(advise(read, list), EFAULT) << "deregistered";
  for (ibv_mr* one : {read_only, ordinary, source}) EXPECT_EQ(ibv_dereg_mr(one), 0);
  EXPECT_EQ(ibv_dereg_mr(everything), 0);
  EXPECT_EQ(ibv_dealloc_pd(pd), 0);
}

}  // namespace
}  // namespace uroce::dropin
