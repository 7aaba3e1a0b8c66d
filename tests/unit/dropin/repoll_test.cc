// repoll_create(), repoll_ctl() and repoll_wait() over rsockets and other descriptors.
#include "dropin/rsocket/repoll.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <rdma/rsocket.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <set>
#include <thread>

#include "socket_address.h"

namespace {

class Repolls : public testing::Test {
 protected:
  void SetUp() override {
    list_ = repoll_create(EPOLL_CLOEXEC);
    ASSERT_GE(list_, 0);
    plain_ = eventfd(0, EFD_NONBLOCK);
  }
  void TearDown() override {
    EXPECT_EQ(rclose(list_), 0);
    close(plain_);
  }
  int ctl(int op, int fd, uint32_t events, uint64_t data = 0) const {
    epoll_event event{};
    event.events = events;
    event.data.u64 = data;
    return repoll_ctl(list_, op, fd, &event) == 0 ? 0 : errno;
  }
  /// The only event within `timeout`; its data are 0 where there is none.
  epoll_event next(int timeout = 20000) const {
    std::array<epoll_event, 4> found{};
    EXPECT_LE(repoll_wait(list_, found.data(), found.size(), timeout), 1);
    return found[0];
  }
  void signal() const { eventfd_write(plain_, 1); }

  int list_ = -1;
  int plain_ = -1;
};

TEST_F(Repolls, TellOfPlainDescriptors) {
  ASSERT_EQ(ctl(EPOLL_CTL_ADD, plain_, EPOLLIN, 7), 0);
  EXPECT_EQ(next(0).data.u64, 0u);
  EXPECT_EQ(next(20).data.u64, 0u);
  signal();
  const epoll_event found = next();
  EXPECT_EQ(found.data.u64, 7u);
  EXPECT_EQ(found.events, uint32_t{EPOLLIN});
  EXPECT_EQ(next(0).data.u64, 7u);  // it is still readable
  ASSERT_EQ(ctl(EPOLL_CTL_MOD, plain_, EPOLLOUT, 8), 0);
  EXPECT_EQ(next(0).events, uint32_t{EPOLLOUT});
  ASSERT_EQ(ctl(EPOLL_CTL_DEL, plain_, 0), 0);
  EXPECT_EQ(next(0).events, 0u);
}

TEST_F(Repolls, ChangesReachAThreadThatWaits) {
  signal();
  std::thread waits([&] { EXPECT_EQ(next().data.u64, 9u); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(ctl(EPOLL_CTL_ADD, plain_, EPOLLIN, 9), 0);
  waits.join();
}

TEST_F(Repolls, OneShotIsReportedOnce) {
  signal();
  ASSERT_EQ(ctl(EPOLL_CTL_ADD, plain_, EPOLLIN | EPOLLONESHOT, 7), 0);
  EXPECT_EQ(next().data.u64, 7u);
  EXPECT_EQ(next(0).data.u64, 0u);
  ASSERT_EQ(ctl(EPOLL_CTL_MOD, plain_, EPOLLIN | EPOLLONESHOT, 8), 0);
  EXPECT_EQ(next().data.u64, 8u);
}

TEST_F(Repolls, EachDescriptorHasItsTurn) {
  std::array<int, 3> many{};
  for (int& each : many) {
    each = eventfd(1, 0);
    ASSERT_EQ(ctl(EPOLL_CTL_ADD, each, EPOLLIN, static_cast<uint64_t>(each)), 0);
  }
  std::set<uint64_t> seen;
  for (std::size_t i = 0; i < many.size(); ++i) {
    epoll_event one{};
    ASSERT_EQ(repoll_wait(list_, &one, 1, 0), 1);
    seen.insert(one.data.u64);
  }
  EXPECT_EQ(seen.size(), many.size());
  for (const int each : many) close(each);
  EXPECT_EQ(next(0).data.u64, 0u);  // closed ones are not reported
}

TEST_F(Repolls, HaveDescriptorFlags) {
  EXPECT_EQ(rfcntl(list_, F_GETFD), FD_CLOEXEC);
  EXPECT_EQ(rfcntl(list_, F_SETFD, 0), 0);
  EXPECT_EQ(rfcntl(list_, F_GETFD), 0);
}

TEST_F(Repolls, MistakesAreRefused) {
  EXPECT_EQ(ctl(EPOLL_CTL_DEL, plain_, 0), ENOENT);
  EXPECT_EQ(ctl(EPOLL_CTL_MOD, plain_, 0), ENOENT);
  EXPECT_EQ(ctl(EPOLL_CTL_ADD, -1, EPOLLIN), EBADF);
  EXPECT_EQ(ctl(EPOLL_CTL_ADD, list_, EPOLLIN), EINVAL);
  EXPECT_EQ(ctl(99, plain_, EPOLLIN), EINVAL);
  ASSERT_EQ(ctl(EPOLL_CTL_ADD, plain_, EPOLLIN), 0);
  EXPECT_EQ(ctl(EPOLL_CTL_ADD, plain_, EPOLLIN), EEXIST);
  EXPECT_EQ(repoll_ctl(plain_, EPOLL_CTL_DEL, 0, nullptr), -1);
  EXPECT_EQ(repoll_create(1), -1);
  epoll_event one{};
  EXPECT_EQ(repoll_wait(list_, &one, 0, 0), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(repoll_wait(plain_, &one, 1, 0), -1);
}

TEST_F(Repolls, TellOfRsockets) {
  const int listener = rsocket(AF_INET, SOCK_STREAM, 0), near = rsocket(AF_INET, SOCK_STREAM, 0);
  const auto any = address("10.117.0.1");
  ASSERT_EQ(rbind(listener, plain(any), sizeof(any)), 0) << std::strerror(errno);
  ASSERT_EQ(rlisten(listener, 1), 0);
  ASSERT_EQ(ctl(EPOLL_CTL_ADD, listener, EPOLLIN, 1), 0);
  sockaddr_in at{};
  socklen_t length = sizeof(at);
  ASSERT_EQ(rgetsockname(listener, reinterpret_cast<sockaddr*>(&at), &length), 0);
  std::thread connects([&] { EXPECT_EQ(rconnect(near, plain(at), sizeof(at)), 0); });
  EXPECT_EQ(next().data.u64, 1u);
  const int far = raccept(listener, nullptr, nullptr);
  connects.join();
  ASSERT_GE(far, 0);

  ASSERT_EQ(ctl(EPOLL_CTL_ADD, far, EPOLLIN | EPOLLOUT, 2), 0);
  EXPECT_EQ(next().events, uint32_t{EPOLLOUT});
  ASSERT_EQ(ctl(EPOLL_CTL_MOD, far, EPOLLIN, 3), 0);
  EXPECT_EQ(next(0).data.u64, 0u);
  std::thread sends([&] { EXPECT_EQ(rsend(near, "abc", 3, 0), 3); });
  EXPECT_EQ(next().data.u64, 3u);
  sends.join();

  std::thread closes([&] { rclose(near); });
  rclose(far);
  closes.join();
  EXPECT_EQ(ctl(EPOLL_CTL_DEL, far, 0), ENOENT);  // closing has done it
  rclose(listener);
}

}  // namespace
