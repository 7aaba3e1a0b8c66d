#include "control/event_fd.h"

#include <gtest/gtest.h>

#include "readable.h"

namespace uroce::control {
namespace {

TEST(EventFd, CountsEvents) {
  auto fd = EventFd::create();
  ASSERT_TRUE(fd.has_value());
  EXPECT_FALSE(readable(fd->fd()));
  EXPECT_FALSE(fd->take());
  fd->signal();
  fd->signal();
  EXPECT_TRUE(readable(fd->fd()));
  EXPECT_TRUE(fd->take());
  EXPECT_TRUE(readable(fd->fd()));
  EXPECT_TRUE(fd->take());
  EXPECT_FALSE(readable(fd->fd()));
  EXPECT_FALSE(fd->take());
}

TEST(EventFd, MovesItsDescriptor) {
  auto fd = EventFd::create();
  ASSERT_TRUE(fd.has_value());
  const int number = fd->fd();
  const EventFd moved(std::move(*fd));
  EXPECT_EQ(moved.fd(), number);
  EXPECT_EQ(fd->fd(), -1);
}

}  // namespace
}  // namespace uroce::control
