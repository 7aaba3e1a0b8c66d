#include "pmd_glue/frame_tap.h"

#include <gtest/gtest.h>
#include <rte_ip.h>
#include <rte_mbuf.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "base/random.h"

namespace uroce::glue {
namespace {

using message::CaptureRecord;
using message::CaptureRing;
using message::kCaptureBytes;

/// A frame of one or two segments in plain memory.
struct Frame {
  explicit Frame(uint32_t length, uint32_t first = UINT32_MAX) : bytes(length) {
    for (uint32_t i = 0; i < length; ++i) bytes[i] = static_cast<std::byte>(i * 7 + length);
    first = std::min(first, length);
    const auto fill = [this](rte_mbuf& m, uint32_t from, uint32_t count) {
      m.buf_addr = bytes.data() + from;
      m.data_len = static_cast<uint16_t>(count);
    };
    fill(head, 0, first);
    head.pkt_len = length;
    if (first == length) return;
    fill(tail, first, length - first);
    head.next = &tail;
    head.nb_segs = 2;
  }
  std::vector<std::byte> bytes;
  const std::unique_ptr<rte_mbuf> segments[2] = {std::make_unique<rte_mbuf>(), std::make_unique<rte_mbuf>()};
  rte_mbuf& head = *segments[0];
  rte_mbuf& tail = *segments[1];
};

class FrameTapTest : public testing::Test {
 protected:
  FrameTapTest() { std::memset(memory_.get(), 0, message::kCaptureStride); }

  /// The oldest record, as a reader finds it; empty when there is none.
  std::vector<std::byte> take(CaptureRecord* out = nullptr) {
    while (position_ != head_.written) {
      const uint64_t offset = position_ & (kCaptureBytes - 1);
      const std::byte* at = memory_.get() + message::kCaptureHeader + offset;
      CaptureRecord record{};
      if (kCaptureBytes - offset >= sizeof record) std::memcpy(&record, at, sizeof record);
      if (kCaptureBytes - offset < sizeof record || record.length == message::kCaptureSkip) {
        head_.read = position_ += kCaptureBytes - offset;
        continue;
      }
      EXPECT_LE(offset + sizeof record + record.length, kCaptureBytes);
      std::vector<std::byte> bytes(at + sizeof record, at + sizeof record + record.length);
      head_.read = position_ += message::capture_record_bytes(record.length);
      if (out != nullptr) *out = record;
      return bytes;
    }
    return {};
  }

  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::unique_ptr<std::byte, Free> memory_{static_cast<std::byte*>(std::aligned_alloc(4096, message::kCaptureStride))};
  CaptureRing& head_ = *reinterpret_cast<CaptureRing*>(memory_.get());
  FrameTap tap_{memory_.get()};
  uint64_t position_ = 0;
};

TEST_F(FrameTapTest, KeepsFramesWithTheirTimeAndDirection) {
  const Frame one(60), two(1499, 42);
  tap_.set_time(Nanos(77));
  tap_.add(one.head, false);
  tap_.add(two.head, true);
  CaptureRecord record{};
  EXPECT_EQ(take(&record), one.bytes);
  EXPECT_EQ(record.outbound, 0u);
  EXPECT_EQ(take(&record), two.bytes) << "in one piece";
  EXPECT_EQ(record.outbound, 1u);
  EXPECT_EQ(record.time_ns, 77u);
  EXPECT_TRUE(take().empty());
}

TEST_F(FrameTapTest, FillsInTheChecksumThatIsLeftToTheNic) {
  Frame frame(60);
  auto* ip = reinterpret_cast<rte_ipv4_hdr*>(frame.bytes.data() + 14);
  ip->version_ihl = 0x45;
  frame.head.l2_len = 14;
  frame.head.ol_flags = RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_IP_CKSUM;
  tap_.add(frame.head, true);
  const auto seen = take();
  ASSERT_EQ(seen.size(), 60u);
  EXPECT_EQ(rte_raw_cksum(seen.data() + 14, 20), 0xffff);
}

// Round and round, the reader now ahead and now behind: each frame is right, and each missing one was counted.
TEST_F(FrameTapTest, NeverOverrunsItsReader) {
  Random random(20261122);
  uint64_t added = 0, taken = 0;
  for (int i = 0; i < 30000; ++i) {
    const Frame frame(static_cast<uint32_t>(14 + random.below(9000)));
    tap_.add(frame.head, false);
    ++added;
    for (uint64_t n = random.below(i % 20000 < 10000 ? 1 : 3); n > 0; --n) {
      const auto bytes = take();
      if (bytes.empty()) break;
      ++taken;
      ASSERT_EQ(bytes, Frame(static_cast<uint32_t>(bytes.size())).bytes);
    }
  }
  while (!take().empty()) ++taken;
  EXPECT_GT(head_.dropped, 1000u);
  EXPECT_EQ(taken + head_.dropped, added);
}

TEST_F(FrameTapTest, BelievesNoReader) {
  const Frame frame(9000);
  for (int i = 0; i < 5000; ++i) {
    head_.read = static_cast<uint64_t>(i) * 0x123456789abcdef;
    tap_.add(frame.head, false);
  }
  head_.read = UINT64_MAX;
  const uint64_t dropped = head_.dropped;
  tap_.add(frame.head, false);
  EXPECT_GE(head_.dropped + 1, dropped) << "it is still alive, and wrote inside its ring";
  const Frame giant(message::kCaptureLongest + 1);
  tap_.add(giant.head, false);
  EXPECT_GT(head_.dropped, dropped);
}

}  // namespace
}  // namespace uroce::glue
