// Calls of later releases of rdma-core, by their declarations here.
#include <cerrno>
#include <cstring>

#include "dropin/ibverbs/later_verbs.h"
#include "dropin/ibverbs/texts.h"
#include "pair.h"

namespace uroce::dropin {
namespace {

using later::RegionInit;

class LaterVerbs : public Pair {
 protected:
  static constexpr int kAll = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

  RegionInit of_memory(uint64_t fields) {
    RegionInit attr{};
    attr.fields = fields;
    attr.length = 4096;
    attr.access = kAll;
    attr.address = memory_.data();
    return attr;
  }
  int refusal_of(RegionInit attr) {
    errno = 0;
    return later::reg_mr_ex(pd_, &attr) == nullptr ? errno : 0;
  }
  /// WRITEs the first bytes of memory_ to `remote`.
  ibv_wc_status write_to(uint64_t remote, uint32_t rkey, uint32_t length) {
    ibv_sge where = sge(0, length);
    ibv_send_wr wr{};
    wr.sg_list = &where;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma = {remote, rkey};
    ibv_send_wr* bad = nullptr;
    EXPECT_EQ(ibv_post_send(qp_[0], &wr, &bad), 0);
    const auto done = poll(1);
    return done.size() == 1 ? done[0].status : IBV_WC_GENERAL_ERR;
  }
};

TEST_F(LaterVerbs, RegisterMemoryByItsAddress) {
  RegionInit attr = of_memory(RegionInit::kAddress);
  attr.iova = 12345;  // not said to be there
  ibv_mr* mr = later::reg_mr_ex(pd_, &attr);
  ASSERT_NE(mr, nullptr) << errno;
  EXPECT_EQ(mr->addr, memory_.data());
  EXPECT_EQ(mr->length, 4096u);
  EXPECT_EQ(write_to(reinterpret_cast<uint64_t>(memory_.data()) + 64, mr->rkey, 8), IBV_WC_SUCCESS);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

TEST_F(LaterVerbs, RegisterMemoryWithAnAddressOfItsOwn) {
  RegionInit attr = of_memory(RegionInit::kAddress | RegionInit::kIova);
  attr.iova = 0x7000'0000;
  ibv_mr* mr = later::reg_mr_ex(pd_, &attr);
  ASSERT_NE(mr, nullptr) << errno;
  std::memcpy(memory_.data(), "from afar", 9);
  EXPECT_EQ(write_to(attr.iova + 100, mr->rkey, 9), IBV_WC_SUCCESS);
  EXPECT_EQ(std::memcmp(memory_.data() + 100, "from afar", 9), 0);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

TEST_F(LaterVerbs, RefuseRegionsThatAreNotDescribed) {
  EXPECT_EQ(refusal_of(of_memory(0)), EINVAL);
  EXPECT_EQ(refusal_of(of_memory(RegionInit::kAddress | RegionInit::kFdOffset)), EINVAL);
  EXPECT_EQ(refusal_of(of_memory(RegionInit::kFd | RegionInit::kFdOffset)), EINVAL);
  EXPECT_EQ(refusal_of(of_memory(RegionInit::kAddress | RegionInit::kDmaHandle)), EOPNOTSUPP);
  EXPECT_EQ(refusal_of(of_memory(RegionInit::kAddress | 1 << 20)), EOPNOTSUPP);
  RegionInit of_fd = of_memory(RegionInit::kFd | RegionInit::kFdOffset | RegionInit::kIova);
  of_fd.fd = -1;
  EXPECT_EQ(refusal_of(of_fd), EBADF);
}

TEST_F(LaterVerbs, AllocateBuffers) {
  later::Buffer* buffer = nullptr;
  auto* memory = static_cast<char*>(later::alloc_buf(pd_, 5000, &buffer));
  ASSERT_NE(memory, nullptr) << errno;
  EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % 4096, 0u);
  ibv_mr* mr = later::reg_buf_mr(pd_, buffer, memory + 1000, 4000, kAll);
  ASSERT_NE(mr, nullptr) << errno;
  std::memcpy(memory_.data(), "into a buffer", 13);
  EXPECT_EQ(write_to(reinterpret_cast<uint64_t>(memory) + 1000, mr->rkey, 13), IBV_WC_SUCCESS);
  EXPECT_EQ(std::memcmp(memory + 1000, "into a buffer", 13), 0);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);

  EXPECT_EQ(later::export_buf_dmabuf_fd(buffer), -1);
  EXPECT_EQ(errno, ENODATA);
  later::free_buf(buffer);
  EXPECT_EQ(later::alloc_buf(pd_, SIZE_MAX, &buffer), nullptr);
}

TEST_F(LaterVerbs, BuffersHaveLimitsAndADomain) {
  later::Buffer* buffer = nullptr;
  auto* memory = static_cast<char*>(later::alloc_buf(pd_, 5000, &buffer));
  ASSERT_NE(memory, nullptr);
  ibv_pd* other = ibv_alloc_pd(context_);
  EXPECT_EQ(later::reg_buf_mr(pd_, buffer, memory, 5001, kAll), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(later::reg_buf_mr(pd_, buffer, memory + 5001, 0, kAll), nullptr);
  EXPECT_EQ(later::reg_buf_mr(pd_, buffer, memory - 1, 1, kAll), nullptr);
  EXPECT_EQ(later::reg_buf_mr(pd_, buffer, memory + 1, SIZE_MAX, kAll), nullptr);
  errno = 0;
  EXPECT_EQ(later::reg_buf_mr(other, buffer, memory, 5000, kAll), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_dealloc_pd(other), 0);
  later::free_buf(buffer);
}

TEST_F(LaterVerbs, TellTheSpeedOfThePort) {
  uint64_t speed = 0;
  EXPECT_EQ(later::query_port_speed(context_, 1, &speed), 0);
  EXPECT_EQ(speed, 1000u);
  EXPECT_EQ(later::query_port_speed(context_, 2, &speed), EINVAL);
}

TEST_F(LaterVerbs, RefuseWhatADeviceHereLacks) {
  later::DmaHandleInit hints{};
  EXPECT_EQ(later::alloc_dmah(context_, &hints), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  later::CompletionCounterCaps caps{};
  EXPECT_EQ(later::query_comp_cntr_caps(context_, &caps, sizeof(caps)), EOPNOTSUPP);
  later::CompletionCounterInit counter{};
  errno = 0;
  EXPECT_EQ(later::create_comp_cntr(context_, &counter), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  ibv_alloc_dm_attr attr{};
  attr.length = 4096;
  ibv_dm* dm = ibv_alloc_dm(context_, &attr);
  ASSERT_NE(dm, nullptr);
  errno = 0;
  EXPECT_EQ(later::dm_export_dmabuf_fd(dm), -1);
  EXPECT_EQ(errno, EOPNOTSUPP);
  EXPECT_EQ(ibv_free_dm(dm), 0);
}

TEST_F(LaterVerbs, ParentDomainsMayAllowUnprotectedMemory) {
  ibv_parent_domain_init_attr attr{};
  attr.pd = pd_;
  attr.comp_mask = later::kAllowUnprotectedMemory;
  ibv_pd* parent = ibv_alloc_parent_domain(context_, &attr);
  ASSERT_NE(parent, nullptr) << errno;
  EXPECT_EQ(ibv_dealloc_pd(parent), 0);
}

TEST(Texts, OfOpcodes) {
  EXPECT_STREQ(text_of(IBV_WR_SEND), "send");
  EXPECT_STREQ(text_of(static_cast<ibv_wr_opcode>(14)), "flush");
  EXPECT_STREQ(text_of(static_cast<ibv_wr_opcode>(13)), "unknown");
}

}  // namespace
}  // namespace uroce::dropin
