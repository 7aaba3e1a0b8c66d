// Frames that are alike take few bytes in a recording, and come back whole.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/random.h"
#include "record/alike.h"
#include "record/frames.h"
#include "wire/opcode.h"

namespace uroce::record {
namespace {

using Bytes = std::vector<std::byte>;

constexpr std::size_t kFrameBytes = 120;

/// The kinds of frames: of a version of IP, with a tag or without.
struct Kinds {
  bool ipv6 = false, tagged = false;

  std::size_t ip() const { return wire::kEthernetBytes + (tagged ? wire::kVlanBytes : 0); }
  std::size_t bth() const { return ip() + (ipv6 ? wire::kIpv6Bytes : wire::kIpv4Bytes) + wire::kUdpBytes; }
};

Bytes frame_of(const Kinds& kinds, wire::Opcode opcode, Random& random) {
  Bytes frame(kFrameBytes, std::byte{1});
  if (kinds.tagged) frame[12] = std::byte{0x81};
  frame[kinds.ip()] = std::byte{kinds.ipv6 ? uint8_t{0x60} : uint8_t{0x45}};
  if (kinds.ipv6) frame[kinds.ip() + 6] = std::byte{17};
  frame[kinds.bth()] = static_cast<std::byte>(opcode);
  if (!kinds.ipv6) store_be16(frame.data() + kinds.ip() + 4, static_cast<uint16_t>(random.next()));
  // The PSN, the extended headers and the payload are each frame's own.
  for (std::size_t at = kinds.bth() + kBthSame; at < frame.size(); ++at) frame[at] = std::byte(random.next() & 0xff);
  return frame;
}

/// As a recorder writes a burst.
Bytes written(const std::vector<Bytes>& frames) {
  Bytes record(frames.size() * (2 * kFrameBytes + sizeof(RunRecord)));
  std::byte* to = record.data();
  for (std::span<const Bytes> left = frames; !left.empty();) {
    const auto frame_at = [left](std::size_t i) { return left[i].data(); };
    const auto matches = [left](const auto& shared, std::size_t i) {
      return left[i].size() == left.front().size() && shared.matches(left[i].data());
    };
    const Run run = run_of(kept_of(left.front()), left.size(), left.front().data(), matches);
    std::memcpy(to, &run.record, sizeof run.record);
    to = std::ranges::copy(std::span(left.front()).first(run.kept.bytes), to + sizeof run.record).out;
    std::byte* const end = write_alike(to, run, frame_at);
    EXPECT_EQ(static_cast<std::size_t>(end - to), run.rest_bytes());
    to = end;
    left = left.subspan(run.frames);
  }
  record.resize(static_cast<std::size_t>(to - record.data()));
  return record;
}

/// As a replay reads it.
std::vector<Bytes> read(std::span<const std::byte> bytes, const std::vector<Bytes>& frames) {
  const Record record{.kind = Kind::frames, .bytes = bytes};
  Parts parts(record);
  std::vector<Bytes> all;
  while (all.size() < frames.size()) {
    const std::size_t kept = kept_of(frames[all.size()]).bytes;
    for (RunReader run(record, parts, kept, static_cast<uint32_t>(frames.size() - all.size())); run.has_more();) {
      const auto next = run.next(parts);
      all.emplace_back(next.begin(), next.end());
    }
  }
  EXPECT_TRUE(parts.empty());
  return all;
}

void expect_whole(const std::vector<Bytes>& frames) {
  const std::vector<Bytes> all = read(written(frames), frames);
  ASSERT_EQ(all.size(), frames.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_TRUE(std::ranges::equal(all[i], std::span(frames[i]).first(kept_of(frames[i]).bytes))) << "frame " << i;
  }
}

TEST(Runs, FramesComeBackWhateverDiffers) {
  Random random(7);
  constexpr wire::Opcode kOpcodes[] = {wire::Opcode::rc_write_only, wire::Opcode::rc_send_only, wire::Opcode::rc_ack,
                                       wire::Opcode::rc_fetch_add, static_cast<wire::Opcode>(0xc0)};
  for (int turn = 0; turn < 2000; ++turn) {
    const Kinds kinds{.ipv6 = random.below(2) != 0, .tagged = random.below(4) == 0};
    const wire::Opcode opcode = kOpcodes[random.below(std::size(kOpcodes))];
    std::vector<Bytes> frames;
    for (int i = 0; i < 12; ++i) {
      frames.push_back(frame_of(kinds, opcode, random));
      // One byte of a header is another one, or the frame is shorter.
      if (random.below(4) == 0) frames.back()[random.below(kinds.bth() + kBthSame)] ^= std::byte(1 + random.below(255));
      if (random.below(8) == 0) frames.back().resize(kFrameBytes - 1 - random.below(kFrameBytes - 1));
    }
    expect_whole(frames);
  }
}

TEST(Runs, TheNextOneTakesWhatIsItsOwn) {
  for (const bool ipv6 : {false, true}) {
    Random random(1);
    const auto bytes_of = [&](std::size_t count) {
      std::vector<Bytes> frames;
      while (frames.size() < count) frames.push_back(frame_of({.ipv6 = ipv6}, wire::Opcode::rc_write_only, random));
      return written(frames).size();
    };
    const std::size_t more = bytes_of(33) - bytes_of(32);
    EXPECT_EQ(more, 4u + wire::Reth::kBytes + (ipv6 ? 0 : kMiddleBytes));
  }
}

// It has no headers that anybody knows, but a reader wants to see it.
TEST(Runs, AFrameOfAnUnknownOpcodeIsKeptWhole) {
  Random random(1);
  EXPECT_EQ(kept_of(frame_of({}, static_cast<wire::Opcode>(0x1f), random)).bytes, kFrameBytes);
}

TEST(Runs, ARunLongerThanItsRecordIsRefused) {
  const RunRecord run{.alike = 4, .tail = 4};
  const auto head = std::as_bytes(std::span(&run, 1));
  Bytes bytes(head.begin(), head.end());
  bytes.resize(200);
  const Record record{.kind = Kind::frames, .bytes = bytes};
  for (const auto& [kept, left] : {std::pair<std::size_t, uint32_t>{60, 4}, {3, 5}}) {
    Parts parts(record);
    EXPECT_THROW(RunReader(record, parts, kept, left), Stop);
  }
}

}  // namespace
}  // namespace uroce::record
