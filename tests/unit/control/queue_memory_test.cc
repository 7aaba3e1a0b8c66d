#include "control/queue_memory.h"

#include <algorithm>
#include <cerrno>

#include <gtest/gtest.h>

namespace uroce::control {
namespace {

TEST(HeapAllocator, GivesZeroedAlignedMemory) {
  HeapAllocator allocator;
  for (const std::size_t bytes : {1ul, 64ul, 1000ul, 1ul << 20}) {
    const auto memory = allocator.allocate(bytes);
    ASSERT_TRUE(memory.has_value());
    EXPECT_EQ((*memory)->size(), bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>((*memory)->data()) % 64, 0u);
    EXPECT_TRUE(
        std::all_of((*memory)->data(), (*memory)->data() + bytes, [](std::byte b) { return b == std::byte{}; }));
  }
}

TEST(HeapAllocator, SaysHowMuchThereWasNot) {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  HeapAllocator allocator;
  const auto memory = allocator.allocate(std::size_t{1} << 60);
  ASSERT_FALSE(memory.has_value());
  EXPECT_EQ(memory.error().code, ENOMEM);
  EXPECT_NE(memory.error().text.find("1152921504606846976 bytes"), std::string::npos) << memory.error().text;
#else
  GTEST_SKIP() << "the sanitizer's allocator ends the program instead";
#endif
}

}  // namespace
}  // namespace uroce::control
