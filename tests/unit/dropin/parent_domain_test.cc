// Parent domains with allocators (ibv_alloc_parent_domain(3)).
#include <stdlib.h>

#include <cerrno>
#include <cstring>
#include <map>

#include "pair.h"

namespace uroce::dropin {
namespace {

constexpr uint64_t kQp = 1, kCq = 2, kSrq = 3, kWq = 4;

/// Counts what its callbacks are asked for.
struct Heap {
  enum class Answer { memory, library, none, unaligned };
  Answer answer = Answer::memory;
  const ibv_pd* pd = nullptr;
  std::map<void*, uint64_t> given;  ///< by resource type
  int calls = 0;

  static void* alloc(ibv_pd* pd, void* context, std::size_t size, std::size_t alignment, uint64_t type) {
    Heap& heap = *static_cast<Heap*>(context);
    EXPECT_EQ(pd, heap.pd);
    ++heap.calls;
    if (heap.answer == Answer::library) return IBV_ALLOCATOR_USE_DEFAULT;
    if (heap.answer == Answer::none) return nullptr;
    char* at = static_cast<char*>(aligned_alloc(alignment, (size + 2 * alignment - 1) / alignment * alignment));
    std::memset(at, 0xa5, size);
    if (heap.answer == Answer::unaligned) ++at;
    heap.given[at] = type;
    return at;
  }
  static void free(ibv_pd* pd, void* context, void* pointer, uint64_t type) {
    Heap& heap = *static_cast<Heap*>(context);
    EXPECT_EQ(pd, heap.pd);
    const auto found = heap.given.find(pointer);
    ASSERT_NE(found, heap.given.end());
    EXPECT_EQ(found->second, type);
    heap.given.erase(found);
    ::free(heap.answer == Answer::unaligned ? static_cast<char*>(pointer) - 1 : pointer);
  }
  bool gave(const void* pointer, uint64_t type) {
    const auto found = given.find(const_cast<void*>(pointer));
    return found != given.end() && found->second == type;
  }
};

class ParentDomain : public Pair {
 protected:
  void SetUp() override {
    Pair::SetUp();
    parent_ = make_parent(IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT);
    ASSERT_NE(parent_, nullptr);
    heap_.pd = parent_;
  }
  void TearDown() override {
    EXPECT_TRUE(heap_.given.empty()) << "something was not freed";
    EXPECT_EQ(ibv_dealloc_pd(parent_), 0);
    Pair::TearDown();
  }
  ibv_pd* make_parent(uint32_t mask) {
    ibv_parent_domain_init_attr attr{};
    attr.pd = pd_;
    attr.comp_mask = mask;
    attr.alloc = Heap::alloc;
    attr.free = Heap::free;
    attr.pd_context = &heap_;
    return ibv_alloc_parent_domain(context_, &attr);
  }
  ibv_qp* make_qp(ibv_pd* pd) {
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = cq_;
    init.cap = {4, 4, 1, 1, 0};
    init.qp_type = IBV_QPT_RC;
    return ibv_create_qp(pd, &init);
  }
  ibv_srq* make_srq() {
    ibv_srq_init_attr init{};
    init.attr = {.max_wr = 4, .max_sge = 1, .srq_limit = 0};
    return ibv_create_srq(parent_, &init);
  }
  ibv_cq_ex* make_cq() {
    ibv_cq_init_attr_ex init{};
    init.cqe = 4;
    init.wc_flags = IBV_WC_STANDARD_FLAGS;
    init.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD;
    init.parent_domain = parent_;
    return ibv_create_cq_ex(context_, &init);
  }
  ibv_wq* make_wq() {
    ibv_wq_init_attr init{};
    init.wq_type = IBV_WQT_RQ;
    init.max_wr = init.max_sge = 1;
    init.pd = parent_;
    init.cq = cq_;
    return ibv_create_wq(context_, &init);
  }

  Heap heap_;
  ibv_pd* parent_ = nullptr;
};

TEST_F(ParentDomain, ItsAllocatorsGiveTheMemoryOfObjects) {
  ibv_qp* qp = make_qp(parent_);
  ibv_cq_ex* cq = make_cq();
  ibv_srq* srq = make_srq();
  ibv_wq* wq = make_wq();
  EXPECT_TRUE(heap_.gave(qp, kQp));
  EXPECT_TRUE(heap_.gave(cq, kCq));
  EXPECT_TRUE(heap_.gave(srq, kSrq));
  EXPECT_TRUE(heap_.gave(wq, kWq));
  EXPECT_EQ(heap_.given.size(), 4u);
  EXPECT_EQ(ibv_dealloc_pd(parent_), EBUSY);
  EXPECT_EQ(ibv_destroy_wq(wq), 0);
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_dealloc_pd(parent_), EBUSY) << "the completion queue is in it, too";
  EXPECT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}

TEST_F(ParentDomain, AQueuePairInItsMemoryWorks) {
  ibv_qp* qp = make_qp(parent_);
  ASSERT_TRUE(heap_.gave(qp, kQp));
  connect(qp, qp_[1]);
  ASSERT_EQ(post_send(qp, 7, 0), 0);
  ibv_qp_attr to_error{};
  to_error.qp_state = IBV_QPS_ERR;
  ASSERT_EQ(ibv_modify_qp(qp, &to_error, IBV_QP_STATE), 0);
  const auto wcs = poll(1);
  ASSERT_EQ(wcs.size(), 1u);
  EXPECT_EQ(wcs[0].wr_id, 7u);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
}

TEST_F(ParentDomain, AnAllocatorMayLeaveItToTheLibrary) {
  heap_.answer = Heap::Answer::library;
  ibv_qp* qp = make_qp(parent_);
  ASSERT_NE(qp, nullptr);
  EXPECT_EQ(heap_.calls, 1);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
}

TEST_F(ParentDomain, AnAllocatorThatFailsFailsTheCall) {
  for (const auto& [answer, error] : {std::pair(Heap::Answer::none, ENOMEM), {Heap::Answer::unaligned, EINVAL}}) {
    heap_.answer = answer;
    const auto expect_refused = [error](const void* made) {
      EXPECT_EQ(made, nullptr);
      EXPECT_EQ(std::exchange(errno, 0), error);
    };
    errno = 0;
    expect_refused(make_qp(parent_));
    expect_refused(make_cq());
    expect_refused(make_srq());
    expect_refused(make_wq());
  }
}

TEST_F(ParentDomain, WithoutItsFlagAnAllocatorIsNotCalled) {
  ibv_pd* plain = make_parent(0);
  ibv_qp* qp = make_qp(plain);
  ASSERT_NE(qp, nullptr);
  EXPECT_EQ(heap_.calls, 0);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_dealloc_pd(plain), 0);
}

}  // namespace
}  // namespace uroce::dropin
