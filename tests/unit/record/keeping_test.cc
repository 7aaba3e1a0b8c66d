// Recordings that are kept, and old ones that go.
#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "record/file.h"
#include "record/keeping.h"
#include "record/writer.h"

namespace uroce::test {
namespace {

namespace fs = std::filesystem;
using record::Kind;

class KeepingTest : public testing::Test {
 protected:
  KeepingTest() {
    std::string name = (fs::temp_directory_path() / "uroce-keeping-XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }
  ~KeepingTest() override { fs::remove_all(folder_); }

  /// A recording of a process that is gone, `age` seconds old.
  fs::path make(const std::string& name, int age, bool closed = true) {
    const fs::path path = folder_ / name;
    std::vector<std::byte> memory(40'000);
    record::lay_out(memory).closed = closed ? 1 : 0;
    std::ofstream(path).write(reinterpret_cast<const char*>(memory.data()),
                              static_cast<std::streamsize>(memory.size()));
    fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::seconds(age));
    return path;
  }
  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }
  std::vector<std::string> tidy_up() { return record::tidy_up(folder_, "uroce0", 0); }

  fs::path folder_;
};

TEST_F(KeepingTest, TheOldestGo) {
  for (int i = 1; i <= 20; ++i) {
    make(fmt::format("uroce0.0.{}.uroce", 1000 + i), i);
    make(fmt::format("uroce0.0.7.{}.qp-0x11-retry_exceeded.uroce", i), i);
  }
  const fs::path other = make("uroce0.1.1.uroce", 100);
  const fs::path draft = make("uroce0.0.7.21.qp-0x11-fatal.uroce.draft", 1);
  const fs::path living = make("uroce0.0.5.uroce", 200, false);
  const record::Descriptor lock(open(living.c_str(), O_RDWR));
  ASSERT_EQ(flock(lock.get(), LOCK_EX), 0);
  EXPECT_TRUE(tidy_up().empty());
  EXPECT_EQ(files(), 2 * record::kMostFiles + 2);
  EXPECT_TRUE(fs::exists(folder_ / "uroce0.0.1008.uroce"));
  EXPECT_FALSE(fs::exists(folder_ / "uroce0.0.1009.uroce"));
  EXPECT_TRUE(fs::exists(other));
  EXPECT_TRUE(fs::exists(living));
  EXPECT_FALSE(fs::exists(draft));
}

TEST_F(KeepingTest, ADeathIsToldOnce) {
  const fs::path dead = make("uroce0.0.1.uroce", 1, false);
  make("uroce0.0.2.uroce", 1, true);
  std::ofstream(folder_ / "uroce0.0.3.uroce") << "another file";
  EXPECT_EQ(tidy_up(), std::vector<std::string>{dead});
  EXPECT_TRUE(tidy_up().empty());
}

// The engine begins some time after its recording is made.
TEST_F(KeepingTest, ARecordingOfAnEngineThatNeverBeganSaysSo) {
  const auto why = [&](const fs::path& path) { return record::read_file(path).error().text; };
  const fs::path zeros = folder_ / "zeros";
  std::ofstream(zeros) << std::string(40'000, '\0');
  EXPECT_NE(why(zeros).find("nothing is recorded in it"), std::string::npos) << why(zeros);
  std::vector<std::byte> memory(40'000);
  record::lay_out(memory);
  record::Writer out(memory);
  const fs::path begun = folder_ / "begun";
  ASSERT_TRUE(record::copy_recording(memory, begun));
  EXPECT_NE(why(begun).find("nothing is recorded in it"), std::string::npos) << why(begun);
  out.put(Kind::taken, 0, uint64_t{1});
  fs::remove(begun);
  ASSERT_TRUE(record::copy_recording(memory, begun));
  EXPECT_NE(why(begun).find("no state from which to begin"), std::string::npos) << why(begun);
}

// Until it is copied, what led to an end stays.
TEST_F(KeepingTest, APinnedRecordingIsNotOverwritten) {
  std::vector<std::byte> memory(100'000);
  record::lay_out(memory);
  record::Writer out(memory);
  uint64_t value = 0;
  const auto keyframe = [&] {
    const bool gap = out.begin_keyframe();
    out.put(Kind::engine, gap ? record::kAfterGap : 0, ++value);
    return out.end_keyframe();
  };
  const auto fill = [&](int records) {
    for (int i = 0; i < records; ++i) {
      if (out.wants_keyframe()) keyframe();
      out.put(Kind::taken, 0, ++value);
    }
  };
  const auto first = [&] {
    uint64_t oldest = 0;
    const auto all = *record::collect(memory);
    if (all.records.size() >= 16) std::memcpy(&oldest, all.records.data() + 8, sizeof oldest);
    return oldest;
  };
  fill(20'000);
  const uint64_t oldest = first();
  EXPECT_GT(oldest, 1u);
  out.pin();
  fill(20'000);
  EXPECT_EQ(first(), oldest);
  EXPECT_FALSE(out.stopped());
  const std::string copy = folder_ / "copy";
  ASSERT_TRUE(record::copy_recording(memory, copy));
  out.unpin();
  const uint64_t resumed = value;
  fill(10);
  EXPECT_GT(first(), resumed);  // records are missing before it
  fill(20'000);
  EXPECT_FALSE(out.stopped());
  const auto kept = record::read_file(copy);
  ASSERT_TRUE(kept) << kept.error().text;
  EXPECT_GT(kept->keyframes.size(), 1u);
  EXPECT_FALSE(record::copy_recording(memory, copy + "/in a file"));
}

// A reader may miss its end and its beginning, and nothing between them.
TEST_F(KeepingTest, ARecordingThatIsBeingWrittenIsReadWithoutAGap) {
  std::vector<std::byte> memory(40'000);
  record::lay_out(memory, 8);
  std::atomic<bool> over{false};
  std::jthread writer([&] {
    record::Writer out(memory);
    for (uint64_t value = 0; !over.load(std::memory_order_relaxed);) {
      const bool keyframe = out.wants_keyframe();
      if (keyframe) out.begin_keyframe();
      out.put(keyframe ? Kind::engine : Kind::taken, 0, ++value);
      if (keyframe) out.end_keyframe();
    }
  });
  const auto expect_whole = [](std::span<const std::byte> records) {
    uint64_t before = 0;
    for (std::size_t at = sizeof(record::Head); at < records.size(); at += sizeof(record::Head) + sizeof before) {
      uint64_t value = 0;
      std::memcpy(&value, records.data() + at, sizeof value);
      ASSERT_TRUE(before == 0 || value == before + 1) << value << " behind " << before << " at byte " << at;
      before = value;
    }
  };
  std::size_t read = 0;
  for (int i = 0; i < 2000; ++i) {
    const record::Collected all = *record::collect(memory);
    expect_whole(all.records);
    read += all.records.size();
    if (i % 10 != 0) continue;
    const fs::path copy = folder_ / "copy";
    ASSERT_TRUE(record::copy_recording(memory, copy));
    if (const auto kept = record::read_file(copy)) expect_whole(kept->records);
    fs::remove(copy);
  }
  over = true;
  EXPECT_GT(read, 0u);
}

// It takes the place of the one before, so that many queue pairs are recorded, too.
TEST_F(KeepingTest, ALargeKeyframeFitsIntoHalfOfTheMemory) {
  for (const auto& [pieces, fits] : {std::pair(30u, true), std::pair(80u, false)}) {
    std::vector<std::byte> memory(100'000);
    record::lay_out(memory);
    record::Writer out(memory);
    const std::vector<std::byte> piece(1000);
    for (int i = 0; i < 20'000; ++i) {
      if (out.wants_keyframe()) {
        out.begin_keyframe();
        out.put(Kind::engine, 0, uint64_t{0});
        for (uint32_t more = 0; more < pieces; ++more) out.put(Kind::key_more, 0, std::span<const std::byte>(piece));
        EXPECT_EQ(out.end_keyframe(), fits);
      }
      out.put(Kind::taken, 0, uint64_t{1});
      if (fits && i % 100 == 0) {
        EXPECT_FALSE(record::collect(memory)->keyframes.empty());
      }
    }
    EXPECT_EQ(out.stopped(), !fits);
  }
}

TEST(ShellWord, QuotesWhatAShellWouldTake) {
  EXPECT_EQ(record::shell_word("/dev/shm/uroce0.0.1.uroce"), "/dev/shm/uroce0.0.1.uroce");
  EXPECT_EQ(record::shell_word("/tmp/it's $x"), "'/tmp/it'\\''s $x'");
}

}  // namespace
}  // namespace uroce::test
