#include "dropin/common/descriptor.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace uroce::dropin {
namespace {

// rping destroys its event channel while another thread is in rdma_get_cm_event(). That thread then had EAGAIN from a
// channel that blocks, and ended the program.
TEST(Descriptor, AClosedOneIsNotNonBlocking) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  EXPECT_FALSE(non_blocking(ends[0]));
  ASSERT_EQ(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
  EXPECT_TRUE(non_blocking(ends[0]));
  close(ends[0]);
  close(ends[1]);
  EXPECT_FALSE(non_blocking(ends[0]));
}

}  // namespace
}  // namespace uroce::dropin
