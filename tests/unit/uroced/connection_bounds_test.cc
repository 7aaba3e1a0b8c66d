#include "uroced/connection_bounds.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cstring>

namespace uroce::daemon {
namespace {

using std::chrono::milliseconds;

struct Address {
  explicit Address(const char* text) {
    auto* v4 = reinterpret_cast<sockaddr_in*>(&storage);
    auto* v6 = reinterpret_cast<sockaddr_in6*>(&storage);
    storage.ss_family = std::strchr(text, ':') != nullptr ? AF_INET6 : AF_INET;
    void* const at = storage.ss_family == AF_INET6 ? static_cast<void*>(&v6->sin6_addr) : &v4->sin_addr;
    EXPECT_EQ(inet_pton(storage.ss_family, text, at), 1) << text;
  }
  const sockaddr& get() const { return reinterpret_cast<const sockaddr&>(storage); }
  sockaddr_storage storage{};
};

TEST(ConnectionBounds, AHostHasAPart) {
  ConnectionBounds bounds(2, std::chrono::hours(1));
  const Address one("192.0.2.1"), other("192.0.2.2"), home("127.0.0.1"), near("127.9.9.9");
  const Address v6("2001:db8::1"), same("2001:db8::ffff:1"), far("2001:db8:0:1::1");
  bounds.began(1000, one.get());
  EXPECT_TRUE(bounds.admits(one.get()));
  bounds.began(1001, one.get());
  EXPECT_FALSE(bounds.admits(one.get()));
  EXPECT_TRUE(bounds.admits(other.get()));
  bounds.ended(1000);
  EXPECT_TRUE(bounds.admits(one.get()));
  bounds.began(1002, home.get());
  bounds.began(1003, near.get());
  EXPECT_FALSE(bounds.admits(home.get())) << "one machine";
  bounds.began(1004, v6.get());
  bounds.began(1005, same.get());
  EXPECT_FALSE(bounds.admits(v6.get()));
  EXPECT_TRUE(bounds.admits(far.get()));
}

TEST(ConnectionBounds, EachLastsForItsTime) {
  constexpr milliseconds kLife{50};
  ConnectionBounds bounds(10, kLife);
  const Address one("192.0.2.1");
  for (int round = 0; round < 3; ++round) {
    std::array<int, 2> ends{};
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
    const auto start = std::chrono::steady_clock::now();
    bounds.began(ends[0], one.get());
    pollfd waiting{.fd = ends[1], .events = POLLIN, .revents = 0};
    ASSERT_EQ(poll(&waiting, 1, 10'000), 1);
    char byte = 0;
    EXPECT_EQ(read(ends[1], &byte, 1), 0) << "its end";
    EXPECT_GE(std::chrono::steady_clock::now() - start, kLife);
    bounds.ended(ends[0]);
    close(ends[0]);
    close(ends[1]);
  }
}

}  // namespace
}  // namespace uroce::daemon
