#include "queues/layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <type_traits>

namespace uroce::queues {
namespace {

// The ABI, byte for byte. If this fails, raise kAbiVersion.
static_assert(kAbiVersion == 5);
static_assert(sizeof(RingHeader) == 128 && alignof(RingHeader) == 64);
static_assert(offsetof(RingHeader, producer) == 0 && offsetof(RingHeader, consumer) == 64);

static_assert(sizeof(SendWqe) == 64 && alignof(SendWqe) == 8);
static_assert(offsetof(SendWqe, wr_id) == 0 && offsetof(SendWqe, flags) == 8 && offsetof(SendWqe, opcode) == 12);
static_assert(offsetof(SendWqe, num_sge) == 13 && offsetof(SendWqe, inline_length) == 14);
static_assert(offsetof(SendWqe, imm_or_key) == 16 && offsetof(SendWqe, rkey) == 20);
static_assert(offsetof(SendWqe, remote_addr) == 24 && offsetof(SendWqe, atomic) == 32 && offsetof(SendWqe, ud) == 32);

static_assert(sizeof(RecvWqe) == 16 && offsetof(RecvWqe, num_sge) == 8);
static_assert(sizeof(Sge) == 16 && offsetof(Sge, length) == 8 && offsetof(Sge, lkey) == 12);

static_assert(sizeof(Cqe) == 64 && offsetof(Cqe, qpn) == 8 && offsetof(Cqe, byte_len) == 12);
static_assert(offsetof(Cqe, imm_or_key) == 16 && offsetof(Cqe, src_qpn) == 20 && offsetof(Cqe, flags) == 24);
static_assert(offsetof(Cqe, status) == 28 && offsetof(Cqe, opcode) == 29 && offsetof(Cqe, pkey_index) == 30);
static_assert(offsetof(Cqe, vendor_error) == 32 && offsetof(Cqe, timestamp_ns) == 40);
static_assert(offsetof(Cqe, flow_tag) == 36 && offsetof(Cqe, vlan_tag) == 48);

static_assert(sizeof(CqHeader) == 64 && sizeof(SrqHeader) == 64);
static_assert(sizeof(HeldRecv) == 64 && offsetof(HeldRecv, wr_id) == 0 && offsetof(HeldRecv, held) == 8 &&
              offsetof(HeldRecv, qpn) == 12);

// Structures that cross a process boundary are copied as bytes.
static_assert(std::is_trivially_copyable_v<SendWqe> && std::is_trivially_copyable_v<RecvWqe> &&
              std::is_trivially_copyable_v<Cqe> && std::is_trivially_copyable_v<Sge>);

TEST(QueueLayout, StridesHoldTheLargestWorkRequest) {
  for (uint32_t sges = 0; sges <= kMaxSge; ++sges) {
    for (uint32_t inline_bytes = 0; inline_bytes <= kMaxInline; inline_bytes += 16) {
      const uint32_t stride = send_stride(sges, inline_bytes);
      ASSERT_EQ(stride % 64, 0u);
      ASSERT_GE(stride, sizeof(SendWqe) + sges * sizeof(Sge));
      ASSERT_GE(stride, sizeof(SendWqe) + inline_bytes);
      ASSERT_LT(stride, sizeof(SendWqe) + std::max<std::size_t>(sges * sizeof(Sge), inline_bytes) + 64);
    }
    ASSERT_EQ(recv_stride(sges) % 64, 0u);
    ASSERT_GE(recv_stride(sges), sizeof(RecvWqe) + sges * sizeof(Sge));
  }
}

TEST(QueueLayout, RingsHoldHeaderAndSlots) {
  EXPECT_EQ(ring_bytes(1, 64), 192u);
  EXPECT_EQ(ring_bytes(32768, 576), 128u + 32768u * 576u);
}

}  // namespace
}  // namespace uroce::queues
