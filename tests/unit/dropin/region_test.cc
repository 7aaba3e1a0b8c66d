// Memory regions through the drop-in library, as providers of kernel devices treat them.
#include <cerrno>

#include <sys/mman.h>
#include <unistd.h>

#include "pair.h"

namespace uroce::dropin {
namespace {

class Regions : public Pair {
 protected:
  static constexpr int kAll = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

  ibv_wc_status run(ibv_wr_opcode opcode, const ibv_sge& where, uint64_t remote, uint32_t rkey) {
    ibv_sge list = where;
    ibv_send_wr wr{};
    wr.sg_list = &list;
    wr.num_sge = 1;
    wr.opcode = opcode;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma = {remote, rkey};
    ibv_send_wr* bad = nullptr;
    EXPECT_EQ(ibv_post_send(qp_[0], &wr, &bad), 0);
    const auto done = poll(1);
    return done.size() == 1 ? done[0].status : IBV_WC_GENERAL_ERR;
  }
};

TEST_F(Regions, OfNoBytesServeMessagesOfNoBytes) {
  for (void* at : {static_cast<void*>(memory_.data() + 3), static_cast<void*>(nullptr)}) {
    ibv_mr* mr = ibv_reg_mr(pd_, at, 0, kAll);
    ASSERT_NE(mr, nullptr) << errno;
    EXPECT_EQ(mr->length, 0u);
    const ibv_sge nothing{reinterpret_cast<uint64_t>(at), 0, mr->lkey};
    EXPECT_EQ(run(IBV_WR_RDMA_WRITE, nothing, reinterpret_cast<uint64_t>(at), mr->rkey), IBV_WC_SUCCESS);
    EXPECT_EQ(run(IBV_WR_RDMA_READ, nothing, reinterpret_cast<uint64_t>(at), mr->rkey), IBV_WC_SUCCESS);
    EXPECT_EQ(ibv_dereg_mr(mr), 0);
  }
}

TEST_F(Regions, OfNoBytesHoldNone) {
  ibv_mr* mr = ibv_reg_mr(pd_, memory_.data(), 0, kAll);
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(run(IBV_WR_RDMA_WRITE, sge(0, 1), reinterpret_cast<uint64_t>(memory_.data()), mr->rkey),
            IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

TEST_F(Regions, ReregisteringTellsWhoRefuses) {
  ibv_mr* mr = ibv_reg_mr(pd_, memory_.data(), 4096, kAll);
  ASSERT_NE(mr, nullptr);
  errno = 0;
  EXPECT_EQ(ibv_rereg_mr(mr, 1 << 10, nullptr, nullptr, 0, 0), IBV_REREG_MR_ERR_INPUT);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, nullptr, 0, 0), IBV_REREG_MR_ERR_INPUT);
  errno = 0;
  // Remote write needs local write: the device says so.
  EXPECT_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, IBV_ACCESS_REMOTE_WRITE),
            IBV_REREG_MR_ERR_CMD);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, 1 << 15), IBV_REREG_MR_ERR_CMD);
  EXPECT_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, IBV_ACCESS_ON_DEMAND),
            IBV_REREG_MR_ERR_CMD);
  EXPECT_EQ(errno, EOPNOTSUPP);
  EXPECT_EQ(run(IBV_WR_RDMA_WRITE, sge(8192, 8), reinterpret_cast<uint64_t>(memory_.data()), mr->rkey), IBV_WC_SUCCESS)
      << "the region is as before";
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

// tests/interop registers those that are there.
TEST_F(Regions, OfDmabufsNeedADmabuf) {
  const auto code = [this](int fd, uint64_t offset, std::size_t length, uint64_t iova, int access = kAll) {
    errno = 0;
    EXPECT_EQ(ibv_reg_dmabuf_mr(pd_, offset, length, iova, fd, access), nullptr);
    return errno;
  };
  const int fd = memfd_create("no dma-buf", MFD_CLOEXEC);
  EXPECT_EQ(code(fd, 0, 4096, 0), EINVAL);
  EXPECT_EQ(code(fd, 0, 0, 0), EINVAL);
  EXPECT_EQ(code(fd, 8, 4096, 0), EINVAL) << "another place in its page";
  EXPECT_EQ(code(fd, 0, 4096, 0, IBV_ACCESS_ON_DEMAND), EINVAL);
  EXPECT_EQ(close(fd), 0);
  EXPECT_EQ(code(fd, 0, 4096, 0), EBADF);
  EXPECT_EQ(code(-1, 0, 4096, 0), EBADF) << "a probe whether there is such a call";
}

TEST_F(Regions, OfDeviceMemoryBeginAtZero) {
  ibv_alloc_dm_attr attr{.length = 4096, .log_align_req = 6, .comp_mask = 0};
  ibv_dm* dm = ibv_alloc_dm(context_, &attr);
  ASSERT_NE(dm, nullptr);
  EXPECT_EQ(ibv_reg_dm_mr(pd_, dm, 0, 4096, kAll), nullptr) << "without IBV_ACCESS_ZERO_BASED";
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_reg_dm_mr(pd_, dm, 8, 4096, kAll | IBV_ACCESS_ZERO_BASED), nullptr) << "beyond the end";
  ibv_mr* mr = ibv_reg_dm_mr(pd_, dm, 1024, 2048, kAll | IBV_ACCESS_ZERO_BASED);
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(ibv_free_dm(dm), EBUSY);

  memory_[0] = 'x';
  EXPECT_EQ(run(IBV_WR_RDMA_WRITE, sge(0, 1), 100, mr->rkey), IBV_WC_SUCCESS);
  char read[8]{};
  EXPECT_EQ(ibv_memcpy_from_dm(read, dm, 1124, 4), 0);
  EXPECT_EQ(read[0], 'x');
  EXPECT_EQ(ibv_memcpy_to_dm(dm, 1124, "yyyy", 4), 0);
  EXPECT_EQ(run(IBV_WR_RDMA_READ, sge(8, 4), 100, mr->rkey), IBV_WC_SUCCESS);
  EXPECT_EQ(memory_[11], 'y');
  for (const auto& [offset, length] :
       {std::pair(1u, 4u), std::pair(4u, 3u), std::pair(4096u, 4u), std::pair(0u, 4100u)}) {
    std::vector<char> bytes(length);
    EXPECT_EQ(ibv_memcpy_to_dm(dm, offset, bytes.data(), length), EINVAL) << offset;
    EXPECT_EQ(ibv_memcpy_from_dm(bytes.data(), dm, offset, length), EINVAL) << offset;
  }
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  EXPECT_EQ(ibv_free_dm(dm), 0);
}

TEST_F(Regions, DeviceMemoryHasItsLimits) {
  ibv_device_attr_ex attr{};
  ASSERT_EQ(ibv_query_device_ex(context_, nullptr, &attr), 0);
  ASSERT_GT(attr.max_dm_size, 0u);
  ibv_alloc_dm_attr asked{.length = attr.max_dm_size + 1, .log_align_req = 0, .comp_mask = 0};
  EXPECT_EQ(ibv_alloc_dm(context_, &asked), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  asked = {.length = 64, .log_align_req = 13, .comp_mask = 0};
  EXPECT_EQ(ibv_alloc_dm(context_, &asked), nullptr);
  EXPECT_EQ(errno, EINVAL);
  asked = {.length = 64, .log_align_req = 0, .comp_mask = 1};
  EXPECT_EQ(ibv_alloc_dm(context_, &asked), nullptr);
  asked = {.length = 64, .log_align_req = 0, .comp_mask = 0};
  ibv_dm* dm = ibv_alloc_dm(context_, &asked);
  ASSERT_NE(dm, nullptr);
  ibv_dm* same = ibv_import_dm(context_, dm->handle);
  ASSERT_NE(same, nullptr);
  int word = 77;
  EXPECT_EQ(ibv_memcpy_to_dm(same, 4, &word, 4), 0);
  word = 0;
  EXPECT_EQ(ibv_memcpy_from_dm(&word, dm, 4, 4), 0);
  EXPECT_EQ(word, 77);
  ibv_unimport_dm(same);
  EXPECT_EQ(ibv_free_dm(dm), 0);
  EXPECT_EQ(ibv_import_dm(context_, 0xffffff), nullptr);
}

TEST_F(Regions, OfNothingServeAnyAddress) {
  ibv_mr* nothing = ibv_alloc_null_mr(pd_);
  ASSERT_NE(nothing, nullptr);
  memory_[100] = memory_[200] = 'a';
  const ibv_sge where{1, 16, nothing->lkey};
  EXPECT_EQ(run(IBV_WR_RDMA_WRITE, where, reinterpret_cast<uint64_t>(&memory_[100]), mr_->rkey), IBV_WC_SUCCESS);
  EXPECT_EQ(memory_[100], 0);
  EXPECT_EQ(run(IBV_WR_RDMA_READ, where, reinterpret_cast<uint64_t>(&memory_[200]), mr_->rkey), IBV_WC_SUCCESS);
  EXPECT_EQ(memory_[200], 'a');
  EXPECT_EQ(ibv_dereg_mr(nothing), 0);
}

}  // namespace
}  // namespace uroce::dropin
