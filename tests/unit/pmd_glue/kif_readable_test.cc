// A sleeping engine wakes by the frame that arrives, not at the end of its nap: the sleeps here would last half a
// minute.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <thread>

#include "pmd_glue/kif/readable.h"
#include "pmd_glue/waker.h"

namespace uroce::glue::kif {
namespace {

using std::chrono::seconds;
using std::chrono::steady_clock;

class KifReadable : public testing::Test {
 protected:
  void SetUp() override {
    for (auto& ends : sockets_) ASSERT_EQ(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, ends.data()), 0);
    ASSERT_GE(readable_.descriptor(), 0);
    ASSERT_TRUE(readable_.watch(socket()));
    ASSERT_TRUE(waker_.watch(readable_.descriptor()));
  }
  void TearDown() override {
    for (const auto& ends : sockets_) {
      for (const int fd : ends) close(fd);
    }
  }

  /// The queue's socket. Another takes its place under the same number.
  int socket() const { return sockets_[0][1]; }
  void send(std::size_t pair) const { ASSERT_EQ(::send(sockets_[pair][0], "x", 1, 0), 1); }
  bool receive() const {
    char byte = 0;
    return recv(socket(), &byte, 1, 0) == 1;
  }
  /// Whether something ends a sleep before its limit.
  bool wakes(Nanos limit) {
    const auto begin = steady_clock::now();
    waker_.prepare();
    waker_.sleep(limit);
    return steady_clock::now() - begin < limit;
  }

  std::array<std::array<int, 2>, 2> sockets_{};
  Readable readable_;
  Waker waker_;
};

TEST_F(KifReadable, AFrameThatWaitsEndsTheSleepAtOnce) {
  send(0);
  EXPECT_TRUE(wakes(seconds(30)));
  EXPECT_TRUE(wakes(seconds(30))) << "it still waits";
  EXPECT_TRUE(receive());
  EXPECT_FALSE(wakes(std::chrono::milliseconds(1)));
}

TEST_F(KifReadable, AFrameThatArrivesEndsTheSleepAtOnce) {
  for (int i = 0; i < 20; ++i) {
    std::thread peer([this] {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      send(0);
    });
    EXPECT_TRUE(wakes(seconds(30)));
    peer.join();
    EXPECT_TRUE(receive());
  }
}

TEST_F(KifReadable, FollowsASocketThatTakesThePlace) {
  send(0);
  ASSERT_EQ(dup3(sockets_[1][1], socket(), O_CLOEXEC), socket());
  ASSERT_TRUE(readable_.watch(socket()));
  EXPECT_FALSE(wakes(std::chrono::milliseconds(1))) << "that frame went with its socket";
  send(1);
  EXPECT_TRUE(wakes(seconds(30)));
  EXPECT_TRUE(receive());
  EXPECT_FALSE(wakes(std::chrono::milliseconds(1)));
}

}  // namespace
}  // namespace uroce::glue::kif
