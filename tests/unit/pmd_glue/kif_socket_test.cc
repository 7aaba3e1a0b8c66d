// How many READ responses a queue pair may wait for on a port of the kernel.
#include "pmd_glue/kif/socket.h"

#include <gtest/gtest.h>

namespace uroce::glue::kif {
namespace {

TEST(KifReadWindow, HoldsNoMoreThanACache) {
  EXPECT_LE(read_window_packets(1, 1024), kReadBytes / 1024);
  EXPECT_LE(read_window_packets(1, 4096), kReadBytes / 4096);
  EXPECT_GT(read_window_packets(1, 1024), read_window_packets(1, 4096));
}

TEST(KifReadWindow, HoldsNoMoreThanTheSocket) {
  EXPECT_EQ(read_window_packets(1 << 30, 256), 1u);  // one always may go
  EXPECT_LT(read_window_packets(1 << 20, 256), kReadBytes / 256);
}

}  // namespace
}  // namespace uroce::glue::kif
