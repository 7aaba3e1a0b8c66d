// The sender, and the question whether super-frames can be sent, where the kernel refuses messages: this program's
// sendmsg() and sendmmsg() do it in its place.
#include <gtest/gtest.h>
#include <rte_mbuf.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <functional>
#include <vector>

#include "kif_frames.h"
#include "pmd_glue/kif/kernel_support.h"
#include "pmd_glue/kif/sender.h"

namespace {
/// An errno value for a message, or 0 to send it. sendmsg() and sendmmsg() ask it.
std::function<int(const msghdr&)> refuse;  // NOLINT(cert-err58-cpp)
int asked = 0;                             ///< messages that it was asked about
}  // namespace

extern "C" ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  if (const int error = refuse ? refuse(*message) : 0; error != 0) {
    errno = error;
    return -1;
  }
  return syscall(SYS_sendmsg, fd, message, flags);
}

extern "C" int sendmmsg(int fd, mmsghdr* messages, unsigned count, int flags) {
  unsigned taken = count;
  for (unsigned i = 0; refuse && i < taken; ++i) {
    ++asked;
    const int error = refuse(messages[i].msg_hdr);
    if (error != 0 && i == 0) {
      errno = error;
      return -1;
    }
    if (error != 0) taken = i;
  }
  return static_cast<int>(syscall(SYS_sendmmsg, fd, messages, taken, flags));
}

namespace uroce::glue::kif {
namespace {

class KifSender : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, ends_.data()), 0);
    pool_ = rte_pktmbuf_pool_create("kif-send", 255, 0, 0, RTE_PKTMBUF_HEADROOM + 2048, SOCKET_ID_ANY);
    ASSERT_NE(pool_, nullptr);
  }
  void TearDown() override {
    refuse = nullptr;
    for (const int fd : ends_) close(fd);
    EXPECT_EQ(rte_mempool_in_use_count(pool_), 0u) << "a buffer was lost";
    rte_mempool_free(pool_);
  }

  rte_mbuf* mbuf_of(const Bytes& frame) {
    rte_mbuf* mbuf = rte_pktmbuf_alloc(pool_);
    std::memcpy(rte_pktmbuf_append(mbuf, static_cast<uint16_t>(frame.size())), frame.data(), frame.size());
    return mbuf;
  }
  std::vector<rte_mbuf*> mbufs_of(const std::vector<Bytes>& frames) {
    std::vector<rte_mbuf*> out;
    for (const Bytes& frame : frames) out.push_back(mbuf_of(frame));
    return out;
  }
  /// How many bytes the next message has, without its virtio header; 0: there is none.
  std::size_t receive() {
    std::array<std::byte, 8192> bytes{};
    const ssize_t length = recv(ends_[1], bytes.data(), bytes.size(), 0);
    return length < 0 ? 0 : static_cast<std::size_t>(length) - sizeof(VnetHeader);
  }

  std::vector<std::size_t> lengths_of(const std::vector<Bytes>& frames);

  std::array<int, 2> ends_{-1, -1};
  rte_mempool* pool_ = nullptr;
  Sender sender_{true};
};

/// The IPv4 id of the first frame in a message, which datagram() was given.
uint16_t id_of(const msghdr& message) {
  std::array<std::byte, 20> head{};
  std::size_t have = 0;
  for (std::size_t i = 1; i < message.msg_iovlen && have < head.size(); ++i) {
    const iovec& part = message.msg_iov[i];
    const std::size_t some = std::min(part.iov_len, head.size() - have);
    if (some != 0) std::memcpy(head.data() + have, part.iov_base, some);
    have += some;
  }
  return load_be16(head.data() + 18);
}

bool is_super(const msghdr& message) {
  VnetHeader vnet;
  std::memcpy(&vnet, message.msg_iov[0].iov_base, sizeof vnet);
  return vnet.gso_type == VnetHeader::kUdpSegments;
}

TEST_F(KifSender, AsksWhetherTheKernelKnowsSuperFrames) {
  EXPECT_EQ(takes_super_frames(ends_[0]), true);
  refuse = [](const msghdr& message) { return is_super(message) ? EINVAL : 0; };  // Linux 6.1
  EXPECT_EQ(takes_super_frames(ends_[0]), false);
  refuse = [](const msghdr& message) { return is_super(message) ? EPERM : 0; };
  EXPECT_EQ(takes_super_frames(ends_[0]), std::nullopt);
  refuse = [](const msghdr&) { return EINVAL; };
  EXPECT_EQ(takes_super_frames(ends_[0]), std::nullopt) << "not about the kind of frame";
  refuse = [](const msghdr&) { return ENETDOWN; };
  EXPECT_EQ(takes_super_frames(ends_[0]), std::nullopt);
}

TEST(KifKernelSupport, ReleasesOfLinux) {
  for (const char* release : {"6.2.0", "6.12.9-amd64", "7.0", "10.1-rc1"}) {
    EXPECT_TRUE(release_has_super_frames(release)) << release;
  }
  for (const char* release : {"6.1.0-30-amd64", "5.15.0-91-generic", "4.18.0"}) {
    EXPECT_FALSE(release_has_super_frames(release)) << release;
  }
}

TEST_F(KifSender, FramesThatAFilterDropsStopNobody) {
  refuse = [](const msghdr& message) { return id_of(message) == 100 ? ENOBUFS : 0; };
  auto mbufs = mbufs_of({datagram(1, 64), datagram(100, 64), datagram(101, 64), datagram(5, 64), datagram(7, 64)});
  EXPECT_EQ(sender_.send(ends_[0], mbufs), 1u) << "the first one is still under way, so the queue may be full";
  EXPECT_EQ(receive(), 106u);
  EXPECT_EQ(sender_.send(ends_[0], std::span(mbufs).subspan(1)), 4u);
  EXPECT_EQ(receive(), 106u);
  EXPECT_EQ(receive(), 106u);
  EXPECT_EQ(receive(), 0u);
  EXPECT_EQ(sender_.counters().dropped.get(), 2u);
}

// They wait for a while only. Where the machine keeps the test waiting for longer, it begins again.
TEST_F(KifSender, FramesWaitForAFullQueueBelow) {
  const TscClock clock;
  bool in_time = false;
  for (int tries = 0; !in_time && tries < 1000; ++tries) {
    Sender sender(true);
    auto first = mbufs_of({datagram(1, 64)});
    ASSERT_EQ(sender.send(ends_[0], first), 1u);
    refuse = [](const msghdr&) { return ENOBUFS; };
    auto mbufs = mbufs_of({datagram(3, 64), datagram(5, 64)});
    const Nanos begin = clock.now();
    const uint16_t one = sender.send(ends_[0], mbufs);
    const int before = asked;
    const uint16_t two = sender.send(ends_[0], std::span(mbufs).subspan(one));
    in_time = clock.now() - begin < QueueBelow::kPatience;
    refuse = nullptr;
    EXPECT_EQ(receive(), 106u);
    const uint16_t three = sender.send(ends_[0], std::span(mbufs).subspan(one + two));
    while (receive() != 0) {
    }
    if (!in_time) continue;
    EXPECT_EQ(one + two, 0);
    EXPECT_EQ(asked, before) << "nothing has left the queue, so there is no room";
    EXPECT_EQ(three, 2u);
    EXPECT_EQ(sender.counters().dropped.get(), 0u);
  }
  EXPECT_TRUE(in_time) << "the machine stood still each time";
}

/// The lengths of the messages that leave when these frames are sent.
std::vector<std::size_t> KifSender::lengths_of(const std::vector<Bytes>& frames) {
  auto mbufs = mbufs_of(frames);
  std::vector<std::size_t> out;
  for (std::size_t sent = 0; sent < mbufs.size();) {
    sent += sender_.send(ends_[0], std::span(mbufs).subspan(sent));
    while (const std::size_t length = receive()) out.push_back(length);
  }
  return out;
}

TEST_F(KifSender, ARefusedSuperFrameLeavesOneByOneAndTheNextOnesWhole) {
  refuse = [](const msghdr& message) { return is_super(message) && id_of(message) == 10 ? EINVAL : 0; };
  const std::vector<std::size_t> expected{106, 106, 106, 234};
  for (uint32_t i = 0; i < 2 * Sender::kMostRefusals; ++i) {
    EXPECT_EQ(lengths_of({datagram(1, 64), datagram(10, 64), datagram(11, 64), datagram(20, 64), datagram(21, 64),
                          datagram(22, 64)}),
              expected);
  }
  EXPECT_TRUE(sender_.super_frames());
  EXPECT_EQ(sender_.counters().dropped.get(), 0u);
}

TEST_F(KifSender, NoSuperFrameIsTriedWhereAllAreRefused) {
  refuse = [](const msghdr& message) { return is_super(message) ? EINVAL : 0; };
  for (uint32_t i = 1; i <= Sender::kMostRefusals; ++i) {
    EXPECT_TRUE(sender_.super_frames());
    EXPECT_EQ(lengths_of({datagram(1, 64), datagram(2, 64)}), (std::vector<std::size_t>{106, 106}));
  }
  EXPECT_FALSE(sender_.super_frames());
  refuse = nullptr;
  EXPECT_EQ(lengths_of({datagram(1, 64), datagram(2, 64)}), (std::vector<std::size_t>{106, 106}));
}

TEST_F(KifSender, AQueueThatStandsStillEndsTheWait) {
  auto first = mbufs_of({datagram(1, 64)});
  ASSERT_EQ(sender_.send(ends_[0], first), 1u);
  refuse = [](const msghdr&) { return ENOBUFS; };
  auto mbufs = mbufs_of({datagram(3, 64)});
  const TscClock clock;
  const Nanos limit = clock.now() + std::chrono::seconds(20);
  while (sender_.send(ends_[0], mbufs) == 0 && clock.now() < limit) usleep(500);
  EXPECT_EQ(sender_.counters().dropped.get(), 1u);
}

}  // namespace
}  // namespace uroce::glue::kif
