#include "base/bytes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

namespace uroce {
namespace {

TEST(Bytes, LoadsAndStoresAreInverseAtAnyAlignment) {
  for (std::size_t at = 0; at < 8; ++at) {
    std::array<std::byte, 24> block{};
    std::byte* p = block.data() + at;
    store_be64(p, 0x0102030405060708);
    EXPECT_EQ(load8(p), 1);
    EXPECT_EQ(load_be16(p), 0x0102);
    EXPECT_EQ(load_be24(p), 0x010203u);
    EXPECT_EQ(load_be32(p), 0x01020304u);
    EXPECT_EQ(load_be64(p), 0x0102030405060708u);
    EXPECT_EQ(load_le32(p), 0x04030201u);
    store_be16(p, 0xa1b2);
    store_be24(p + 2, 0xffc3d4e5);
    store_be32(p + 5, 0x11223344);
    store_le32(p + 9, 0x55667788);
    store8(p + 13, 0x99);
    EXPECT_EQ(load_be64(p), 0xa1b2c3d4e5112233u);
    EXPECT_EQ(load_be64(p + 6), 0x2233448877665599u);
    EXPECT_EQ(std::count(block.begin(), block.end(), std::byte{0}), 10) << "nothing else is written";
  }
}

}  // namespace
}  // namespace uroce
