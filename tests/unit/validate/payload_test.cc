#include "validate/payload.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace uroce::validate {
namespace {

std::vector<std::byte> bytes(16384);
ReadResult answer = ReadResult::read;

ReadResult read_bytes(uint64_t address, std::span<std::byte> to) {
  if (answer == ReadResult::read) std::memcpy(to.data(), bytes.data() + address, to.size());
  return answer;
}

TEST(ValidatePayload, SeesChangesAtBothEnds) {
  Payload payload({{100, 9000}, {10000, 10001}});
  EXPECT_FALSE(payload.changed(read_bytes)) << "it was not read";
  EXPECT_EQ(payload.read(read_bytes), ReadResult::read);
  EXPECT_FALSE(payload.changed(read_bytes));
  for (const std::size_t at : {100u, 2147u, 8999u, 10000u}) {
    bytes[at] ^= std::byte{1};
    EXPECT_TRUE(payload.changed(read_bytes)) << at;
    bytes[at] ^= std::byte{1};
  }
  // The middle of an entry is not read, nor is anything outside.
  for (const std::size_t at : {99u, 4000u, 9000u, 10001u}) {
    bytes[at] ^= std::byte{1};
    EXPECT_FALSE(payload.changed(read_bytes)) << at;
    bytes[at] ^= std::byte{1};
  }
}

TEST(ValidatePayload, MemoryThatCannotBeReadHasNotChanged) {
  Payload payload({{0, 64}});
  EXPECT_EQ(payload.read(read_bytes), ReadResult::read);
  answer = ReadResult::not_mapped;
  EXPECT_FALSE(payload.changed(read_bytes));
  EXPECT_EQ(payload.read(read_bytes), ReadResult::not_mapped);
  answer = ReadResult::read;
  EXPECT_FALSE(payload.changed(read_bytes));
}

TEST(ValidateBuffers, FindsOverlapsAndPrefersThoseThatDiffer) {
  Buffers buffers;
  const auto first = buffers.hold({100, 200});
  EXPECT_FALSE(buffers.overlapping({200, 300}));
  EXPECT_FALSE(buffers.overlapping({0, 100}));
  EXPECT_EQ(buffers.overlapping({100, 200}), (Bytes{100, 200}));
  EXPECT_EQ(buffers.overlapping({199, 201}), (Bytes{100, 200}));
  EXPECT_EQ(buffers.overlapping({0, 1000}), (Bytes{100, 200}));
  const auto second = buffers.hold({0, 1000});
  EXPECT_EQ(buffers.overlapping({100, 200}), (Bytes{0, 1000}));
  buffers.release(second);
  EXPECT_EQ(buffers.overlapping({100, 200}), (Bytes{100, 200}));
  buffers.release(first);
  EXPECT_FALSE(buffers.overlapping({100, 200}));
}

}  // namespace
}  // namespace uroce::validate
