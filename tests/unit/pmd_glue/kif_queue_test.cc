// The sender and the receiver of an interface's queue, joined by a socket pair that keeps messages whole, as packet
// sockets do.
#include <gtest/gtest.h>
#include <rte_mbuf.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "kif_frames.h"
#include "pmd_glue/kif/receiver.h"
#include "pmd_glue/kif/sender.h"

namespace uroce::glue::kif {
namespace {

class KifQueue : public testing::Test {
 protected:
  static constexpr uint16_t kRoom = 4400;

  void SetUp() override {
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, ends_.data()), 0);
    pool_ = rte_pktmbuf_pool_create("kif-test", 1023, 0, 0, RTE_PKTMBUF_HEADROOM + kRoom, SOCKET_ID_ANY);
    ASSERT_NE(pool_, nullptr);
  }
  void TearDown() override {
    for (const int fd : ends_) close(fd);
    EXPECT_EQ(rte_mempool_in_use_count(pool_), 0u) << "a buffer was lost";
    rte_mempool_free(pool_);
  }

  rte_mbuf* mbuf_of(const Bytes& frame, std::size_t first_segment) {
    rte_mbuf* head = rte_pktmbuf_alloc(pool_);
    first_segment = std::min(first_segment, frame.size());
    std::memcpy(rte_pktmbuf_append(head, static_cast<uint16_t>(first_segment)), frame.data(), first_segment);
    if (first_segment == frame.size()) return head;
    rte_mbuf* tail = rte_pktmbuf_alloc(pool_);
    const auto rest = static_cast<uint16_t>(frame.size() - first_segment);
    std::memcpy(rte_pktmbuf_append(tail, rest), frame.data() + first_segment, rest);
    rte_pktmbuf_chain(head, tail);
    return head;
  }

  /// Sends frames and receives them. A socket pair holds few messages.
  std::vector<Bytes> pass(Sender& sender, Receiver& receiver, const std::vector<Bytes>& frames,
                          std::size_t first_segment = SIZE_MAX) {
    std::vector<rte_mbuf*> mbufs;
    for (const Bytes& frame : frames) mbufs.push_back(mbuf_of(frame, first_segment));
    std::vector<Bytes> out;
    for (std::size_t sent = 0; sent < mbufs.size();) {
      sent += sender.send(ends_[0], std::span(mbufs).subspan(sent));
      std::ranges::move(receive(receiver), std::back_inserter(out));
    }
    return out;
  }

  void send_message(const VnetHeader& vnet, const Bytes& bytes) {
    std::array<iovec, 2> parts{iovec{const_cast<VnetHeader*>(&vnet), sizeof vnet},
                               iovec{const_cast<std::byte*>(bytes.data()), bytes.size()}};
    ASSERT_EQ(writev(ends_[0], parts.data(), 2), static_cast<ssize_t>(sizeof vnet + bytes.size()));
  }

  std::vector<Bytes> receive(Receiver& receiver, std::size_t burst = 7) {
    std::vector<Bytes> out;
    std::array<rte_mbuf*, 32> mbufs;
    while (const uint16_t n = receiver.receive(ends_[1], std::span(mbufs).first(burst))) {
      for (uint16_t i = 0; i < n; ++i) {
        const auto* data = rte_pktmbuf_mtod(mbufs[i], const std::byte*);
        out.emplace_back(data, data + mbufs[i]->data_len);
      }
      rte_pktmbuf_free_bulk(mbufs.data(), n);
    }
    return out;
  }

  std::array<int, 2> ends_{-1, -1};
  rte_mempool* pool_ = nullptr;
};

TEST_F(KifQueue, FramesComeBackInOrder) {
  Sender sender(true);
  Receiver receiver(pool_, 0);
  // The lengths of a WRITE's packets and of ACKs.
  std::vector<Bytes> frames;
  for (uint16_t i = 0; i < 150; ++i) {
    const bool first = i % 30 == 0, ack = i % 30 == 29;
    frames.push_back(datagram(i, first ? 1056 : ack ? 20 : 1040));
  }
  for (const std::size_t first_segment : {SIZE_MAX, std::size_t{54}}) {
    EXPECT_EQ(pass(sender, receiver, frames, first_segment), frames);
  }
  EXPECT_GT(sender.counters().super_frames.get(), 4u);
  EXPECT_EQ(sender.counters().super_segments.get(), receiver.counters().super_segments.get());
  EXPECT_LT(receiver.counters().super_copied.get(), receiver.counters().super_frames.get());
}

TEST_F(KifQueue, WhatItTookAndNoMoreAtTheEnd) {
  Sender sender(true);
  Receiver receiver(pool_, 0);
  std::array<rte_mbuf*, 32> out;
  EXPECT_EQ(receiver.receive_rest(out), 0u);
  std::vector<rte_mbuf*> mbufs;
  for (uint16_t i = 0; i < 5; ++i) mbufs.push_back(mbuf_of(datagram(i, 500), SIZE_MAX));
  ASSERT_EQ(sender.send(ends_[0], mbufs), 5u);
  rte_mbuf* later = mbuf_of(datagram(9, 100), SIZE_MAX);
  ASSERT_EQ(sender.send(ends_[0], {&later, 1}), 1u);
  ASSERT_EQ(receiver.receive(ends_[1], std::span(out).first(2)), 2u);
  ASSERT_EQ(receiver.receive_rest(std::span(out).subspan(2, 2)), 2u);
  ASSERT_EQ(receiver.receive_rest(std::span(out).subspan(4)), 1u);
  EXPECT_EQ(receiver.receive_rest(std::span(out).subspan(5)), 0u) << "the next message stays in the socket";
  for (uint16_t i = 0; i < 5; ++i) EXPECT_EQ(load_be16(rte_pktmbuf_mtod(out[i], const std::byte*) + 18), i);
  rte_pktmbuf_free_bulk(out.data(), 5);
  EXPECT_EQ(receive(receiver), std::vector<Bytes>{datagram(9, 100)});
}

// So a round can end with a whole super-frame.
TEST_F(KifQueue, ABurstStopsBehindASuperFrame) {
  Sender sender(true);
  Receiver receiver(pool_, 0);
  std::vector<rte_mbuf*> mbufs;
  const auto send = [&](uint16_t first, std::size_t count, std::size_t bytes) {
    for (std::size_t i = 0; i < count; ++i) {
      mbufs.push_back(mbuf_of(datagram(static_cast<uint16_t>(first + i), bytes), SIZE_MAX));
    }
    ASSERT_EQ(sender.send(ends_[0], mbufs), mbufs.size());
    mbufs.clear();
  };
  send(1, 5, 200);
  send(50, 3, 200);
  for (uint16_t single = 100; single < 103; ++single) send(single, 1, 20);
  std::array<rte_mbuf*, 4> out;
  const auto takes = [&](uint16_t count, Behind behind) {
    EXPECT_EQ(receiver.receive(ends_[1], out), count);
    EXPECT_EQ(receiver.behind(), behind);
    rte_pktmbuf_free_bulk(out.data(), count);
  };
  takes(4, Behind::rest);
  takes(1, Behind::more);
  takes(3, Behind::more);
  takes(3, Behind::none);
  takes(0, Behind::none);
  for (uint16_t single = 200; single < 204; ++single) send(single, 1, 20);
  takes(4, Behind::more);
  send_message({.gso_type = 1}, datagram(1, 100));
  takes(0, Behind::none);
}

TEST_F(KifQueue, SingleFramesIfNobodyWantsOthers) {
  Sender sender(false);
  Receiver receiver(pool_, 0);
  const std::vector<Bytes> frames{datagram(1, 500), datagram(2, 500), datagram(3, 2000)};
  EXPECT_EQ(pass(sender, receiver, frames), frames);
  EXPECT_EQ(receiver.counters().super_frames.get(), 0u);
}

TEST_F(KifQueue, EveryShapeAfterEveryOther) {
  Sender sender(true);
  Receiver receiver(pool_, 0);
  for (const std::size_t before : {16, 20, 400, 1040, 1990}) {
    for (const std::size_t after : {16, 24, 401, 1056, 2000}) {
      std::vector<Bytes> frames;
      for (uint16_t i = 0; i < 64; ++i) frames.push_back(datagram(i, before));
      for (uint16_t i = 0; i < 64; ++i) frames.push_back(datagram(static_cast<uint16_t>(1000 + i), after));
      frames.push_back(datagram(9, 3));
      EXPECT_EQ(pass(sender, receiver, frames), frames) << before << " " << after;
    }
  }
}

// WRITEs and READ responses of 64 KiB at path MTU 4096. Their first packet, or the first and the last one, are longer.
TEST_F(KifQueue, ShapesThatTakeTurnsAreForeseen) {
  constexpr std::size_t kPackets = 16, kMiddle = 4096 + 16;
  for (const auto& [first, last] : {std::pair(kMiddle + 16, kMiddle), std::pair(kMiddle + 4, kMiddle + 4)}) {
    Sender sender(true);
    Receiver receiver(pool_, 0);
    std::vector<Bytes> frames;
    for (uint16_t i = 0; i < 20 * kPackets; ++i) {
      const std::size_t at = i % kPackets;
      frames.push_back(datagram(i, at == 0 ? first : at == kPackets - 1 ? last : kMiddle));
    }
    EXPECT_EQ(pass(sender, receiver, frames), frames);
    EXPECT_GE(receiver.counters().super_frames.get(), 40u);
    EXPECT_LT(receiver.counters().super_copied.get(), 8u);
  }
}

TEST_F(KifQueue, ASuperFrameAfterManyAcks) {
  Sender sender(true);
  Receiver receiver(pool_, 0);
  std::vector<Bytes> frames;
  for (uint16_t i = 0; i < 200; ++i) frames.push_back(datagram(static_cast<uint16_t>(2 * i), 20));
  for (uint16_t i = 0; i < 200; ++i) frames.push_back(datagram(static_cast<uint16_t>(1000 + i), 1040));
  EXPECT_EQ(pass(sender, receiver, frames), frames);
  EXPECT_EQ(receiver.counters().super_copied.get(), 1u);
}

TEST_F(KifQueue, FramesWaitForAFullSocket) {
  Sender sender(true);
  Receiver receiver(pool_, 0);
  std::vector<rte_mbuf*> mbufs;
  uint16_t sent = 0, id = 0;
  do {
    for (rte_mbuf* one : mbufs) rte_pktmbuf_free(one);
    mbufs.assign({mbuf_of(datagram(id, 64), 106)});
    id = static_cast<uint16_t>(id + 2);  // no two are joined
    sent = sender.send(ends_[0], mbufs);
    if (sent == 1) mbufs.clear();
  } while (sent == 1 && id < 20000);
  EXPECT_EQ(sent, 0u) << "the socket never was full";
  EXPECT_EQ(sender.counters().dropped.get(), 0u);
  EXPECT_EQ(receive(receiver).size(), id / 2 - 1u);
  EXPECT_EQ(sender.send(ends_[0], mbufs), 1u);
  EXPECT_EQ(receive(receiver).size(), 1u);
}

TEST_F(KifQueue, CountsFramesThatCanNeverLeave) {
  Sender sender(true);
  close(ends_[1]);
  std::array<rte_mbuf*, 3> mbufs{mbuf_of(datagram(1, 100), 142), mbuf_of(datagram(2, 100), 142),
                                 mbuf_of(datagram(9, 100), 142)};
  EXPECT_EQ(sender.send(ends_[0], mbufs), 3u);
  EXPECT_EQ(sender.counters().dropped.get(), 3u);
}

TEST_F(KifQueue, ForgedMessagesAreCountedAndHarmNothing) {
  Sender sender(true);
  Receiver receiver(pool_, 0);
  const VnetHeader udp{.gso_type = VnetHeader::kUdpSegments, .gso_size = 100};
  const Bytes good = datagram(7, 1000);
  const auto still_works = [&] { EXPECT_EQ(pass(sender, receiver, {datagram(1, 300), datagram(2, 300)}).size(), 2u); };
  send_message({.gso_type = 1, .gso_size = 100}, good);
  still_works();
  EXPECT_EQ(receiver.counters().bad_kind.get(), 1u);
  for (const std::size_t length : {1, 13, 41, 42})
    send_message(udp, Bytes(good.begin(), good.begin() + static_cast<long>(length)));
  still_works();
  EXPECT_EQ(receiver.counters().bad_headers.get(), 4u);
  Bytes longer = good;
  longer.resize(60000);
  send_message(udp, longer);
  send_message(udp, Bytes(good.begin(), good.end() - 1));
  still_works();
  EXPECT_EQ(receiver.counters().bad_lengths.get(), 2u);
  send_message({.gso_type = VnetHeader::kUdpSegments, .gso_size = 0}, good);
  send_message({.gso_type = VnetHeader::kUdpSegments, .gso_size = 3}, good);
  still_works();
  EXPECT_EQ(receiver.counters().bad_segment.get(), 2u);
  send_message({}, datagram(1, kRoom));  // with its headers longer than a buffer
  send_message({.gso_type = VnetHeader::kUdpSegments, .gso_size = 4400}, datagram(1, 9000));
  still_works();
  send_message({}, Bytes(140000));
  still_works();
  EXPECT_EQ(receiver.counters().too_long.get(), 3u);
  send_message({}, {});
  still_works();
}

// The kernel would write a later message beyond the buffer.
TEST_F(KifQueue, AForgedSegmentSizeDescribesNoMoreThanABuffer) {
  Sender sender(true);
  Receiver receiver(pool_, 0);
  const Bytes one = datagram(1, kRoom - 42);
  send_message({.gso_type = VnetHeader::kUdpSegments, .gso_size = 60000}, one);
  EXPECT_EQ(receive(receiver), std::vector<Bytes>{one});
  send_message({}, Bytes(4 * kRoom, std::byte{0xee}));
  EXPECT_TRUE(receive(receiver).empty());
  EXPECT_EQ(receiver.counters().too_long.get(), 1u);
  const std::vector<Bytes> frames{datagram(1, 1040), datagram(2, 1040), datagram(3, 1040), datagram(4, 1040)};
  EXPECT_EQ(pass(sender, receiver, frames), frames);
}

TEST_F(KifQueue, AFloodOfForgedMessagesLeavesTheEngineItsTurn) {
  Receiver receiver(pool_, 0);
  for (int i = 0; i < 8; ++i) send_message({.gso_type = 1}, datagram(1, 100));
  std::array<rte_mbuf*, 3> mbufs;
  for (const uint64_t seen : {3u, 6u, 8u}) {
    EXPECT_EQ(receiver.receive(ends_[1], mbufs), 0u);
    EXPECT_EQ(receiver.counters().bad_kind.get(), seen);
  }
}

TEST_F(KifQueue, WritesTheTagThatTheKernelKeptApart) {
  Sender sender(true);
  Receiver receiver(pool_, 0x123);
  const std::vector<Bytes> frames{datagram(1, 300), datagram(2, 300), datagram(3, 30)};
  const auto got = pass(sender, receiver, frames);
  ASSERT_EQ(got.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(load_be32(got[i].data() + 12), 0x81000123u);
    Bytes bare = got[i];
    bare.erase(bare.begin() + 12, bare.begin() + 16);
    EXPECT_EQ(bare, frames[i]);
  }
}

}  // namespace
}  // namespace uroce::glue::kif
