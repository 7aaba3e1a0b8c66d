#include "service/arena.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/random.h"

namespace uroce::service {
namespace {

Result<Charge> free_of_charge(uint64_t /*bytes*/) { return Charge(); }
constexpr long kChunkPage = long{2} << 20;

const ArenaMemory& placed(const std::unique_ptr<control::QueueMemory>& memory) {
  return static_cast<const ArenaMemory&>(*memory);
}

TEST(Arena, GivesZeroedMemoryThatTheDescriptorShows) {
  auto arena = std::make_shared<Arena>(free_of_charge);
  auto memory = *arena->allocate(1000);
  const auto chunks = arena->take_new_chunks();
  ASSERT_EQ(chunks.size(), 1u);
  void* view = mmap(nullptr, chunks[0].bytes, PROT_READ | PROT_WRITE, MAP_SHARED, chunks[0].fd, 0);
  ASSERT_NE(view, MAP_FAILED);
  EXPECT_TRUE(arena->take_new_chunks().empty());
  auto* there = static_cast<std::byte*>(view) + placed(memory).offset();
  EXPECT_EQ(there[999], std::byte{0});
  memory->data()[999] = std::byte{42};
  EXPECT_EQ(there[999], std::byte{42});
  memory.reset();
  memory = *arena->allocate(1000);
  EXPECT_EQ(memory->data()[999], std::byte{0});
  munmap(view, chunks[0].bytes);
}

/// Bytes of a piece that are present.
uint64_t present(const Arena::NewChunk& chunk) {
  struct stat file{};
  EXPECT_EQ(fstat(chunk.fd, &file), 0);
  return static_cast<uint64_t>(file.st_blocks) * 512;
}

TEST(Arena, AClientWithFewObjectsHasFewPages) {
  auto arena = std::make_shared<Arena>(free_of_charge);
  auto few = *arena->allocate(5000);
  const auto chunk = arena->take_new_chunks().at(0);
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  EXPECT_EQ(present(chunk), std::max(page, 2 * uint64_t{4096}));
  auto many = *arena->allocate(100'000);
  EXPECT_GE(present(chunk), 105'000u) << "engines have no page faults";
  EXPECT_LE(present(chunk), 105'000u + 2 * page);
  EXPECT_TRUE(arena->take_new_chunks().empty());
}

TEST(Arena, ItsMemoryCannotBeCutShort) {
  auto arena = std::make_shared<Arena>(free_of_charge);
  auto memory = *arena->allocate(64);
  const auto chunks = arena->take_new_chunks();
  EXPECT_NE(ftruncate(chunks[0].fd, 0), 0);
  EXPECT_EQ(errno, EPERM);
}

bool punch(int fd, std::size_t bytes) {
  return fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(bytes)) == 0;
}

TEST(Arena, ItsMemoryCannotBePunchedOnceTheClientHasIt) {
  auto arena = std::make_shared<Arena>(free_of_charge);
  auto memory = *arena->allocate(64);
  const auto chunk = arena->take_new_chunks()[0];
  void* view = mmap(nullptr, chunk.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, chunk.fd, 0);
  ASSERT_NE(view, MAP_FAILED);
  EXPECT_TRUE(arena->take_new_chunks().empty());  // the client has sent another request
  memory->data()[0] = std::byte{42};
  EXPECT_FALSE(punch(chunk.fd, chunk.bytes));
  EXPECT_EQ(errno, EPERM);
  EXPECT_NE(madvise(view, chunk.bytes, MADV_REMOVE), 0);
  EXPECT_EQ(memory->data()[0], std::byte{42});
  static_cast<std::byte*>(view)[0] = std::byte{43};
  EXPECT_EQ(memory->data()[0], std::byte{43}) << "the client's mapping stays writable";
  munmap(view, chunk.bytes);
}

// The attack: a client that seals the seals could punch its queues for ever, and engines wait for each punch.
TEST(Arena, KnowsOfAClientThatKeepsItFromSealing) {
  auto arena = std::make_shared<Arena>(free_of_charge);
  auto memory = *arena->allocate(64);
  const auto chunk = arena->take_new_chunks()[0];
  EXPECT_FALSE(arena->unsealable());
  ASSERT_EQ(fcntl(chunk.fd, F_ADD_SEALS, F_SEAL_SEAL), 0);
  arena->take_new_chunks();  // the client has sent another request
  EXPECT_TRUE(arena->unsealable());
}

TEST(Arena, GuardedPiecesTellOfAPunchAndCanBeMappedAgain) {
  if (!FaultWatch::can_guard()) GTEST_SKIP() << "userfaultfd is not permitted here";
  auto waits = std::make_shared<EngineWaits>();
  auto arena = std::make_shared<Arena>(free_of_charge, Arena::Space{}, ArenaRules{true, false, waits});
  auto memory = *arena->allocate(64);
  const auto chunk = arena->take_new_chunks()[0];
  EXPECT_TRUE(arena->take_new_chunks().empty());  // the client has sent another request
  EXPECT_TRUE(arena->punchable());
  EXPECT_NE(fcntl(chunk.fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE), 0);
  memory->data()[0] = std::byte{42};
  void* view = mmap(nullptr, chunk.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, chunk.fd, 0);
  ASSERT_NE(view, MAP_FAILED);
  EXPECT_EQ(static_cast<std::byte*>(view)[0], std::byte{42});
  munmap(view, chunk.bytes);
  EXPECT_FALSE(arena->broken());
  ASSERT_TRUE(punch(chunk.fd, chunk.bytes));
  memory->data()[0] = std::byte{43};
  EXPECT_TRUE(arena->broken()) << "the page was not given again";
  EXPECT_EQ(memory->data()[0], std::byte{43});
}

TEST(Arena, GoesOnWithoutThePagesThatAClientTook) {
  auto arena = std::make_shared<Arena>(free_of_charge);
  auto memory = *arena->allocate(kChunkPage + 64);  // more than the first piece has, and so of huge pages
  const auto chunk = arena->take_new_chunks()[0];
  struct stat file{};
  ASSERT_EQ(fstat(chunk.fd, &file), 0);
  if (file.st_blksize != kChunkPage) GTEST_SKIP() << "a free hugepage is needed; config/hugepages.sh reserves some";
  memory->data()[0] = std::byte{42};
  EXPECT_FALSE(arena->broken());
  // The freed page and all others are taken, as a client can.
  const message::Fd taker(memfd_create("taker", MFD_CLOEXEC | MFD_HUGETLB | MFD_HUGE_2MB));
  ASSERT_TRUE(punch(chunk.fd, chunk.bytes));
  std::vector<void*> taken;
  for (off_t at = 0; ftruncate(taker.get(), at + kChunkPage) == 0; at += kChunkPage) {
    void* page = mmap(nullptr, kChunkPage, PROT_READ | PROT_WRITE, MAP_SHARED, taker.get(), at);
    if (page == MAP_FAILED) break;
    taken.push_back(page);
  }
  memory->data()[0] = std::byte{43};  // without a watch this kills the process
  EXPECT_TRUE(arena->broken());
  for (void* page : taken) munmap(page, kChunkPage);
}

TEST(Arena, ChargesEachAllocationUntilItEnds) {
  Users users({.shared = {}, .whole = {{Resource::queue_bytes, 8192}}}, {}, [](uint32_t, const std::string&) {});
  const Peer root{.privileged = true};
  const auto user = users.of(root);
  auto arena =
      std::make_shared<Arena>([&](uint64_t bytes) { return user->charge(Resource::queue_bytes, bytes, root); });
  auto memory = *arena->allocate(8000);
  EXPECT_EQ(user->used(Resource::queue_bytes), 8000u);
  const auto refused = arena->allocate(1000);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ENOMEM);
  EXPECT_NE(refused.error().text.find("max_queue_bytes"), std::string::npos) << refused.error().text;
  memory.reset();
  EXPECT_EQ(user->used(Resource::queue_bytes), 0u);
  EXPECT_TRUE(arena->allocate(1000));
}

TEST(Arena, AllocationsNeverOverlapAndAllComesBack) {
  constexpr uint64_t kSeed = 7;
  Random random(kSeed);
  auto arena = std::make_shared<Arena>(free_of_charge);
  struct Piece {
    std::unique_ptr<control::QueueMemory> memory;
    std::byte mark;
  };
  std::vector<Piece> pieces;
  for (int step = 0; step < 3000; ++step) {
    if (pieces.empty() || random.next() % 5 < 3) {
      const std::size_t bytes = 1 + random.next() % 20000;
      Piece piece{*arena->allocate(bytes), static_cast<std::byte>(step)};
      EXPECT_EQ(reinterpret_cast<uintptr_t>(piece.memory->data()) % 64, 0u);
      std::memset(piece.memory->data(), static_cast<int>(piece.mark), piece.memory->size());
      pieces.push_back(std::move(piece));
    } else {
      std::swap(pieces[random.next() % pieces.size()], pieces.back());
      const Piece& gone = pieces.back();
      for (std::size_t i = 0; i < gone.memory->size(); i += 63) {
        ASSERT_EQ(gone.memory->data()[i], gone.mark) << "seed " << kSeed << ", step " << step;
      }
      pieces.pop_back();
    }
  }
  pieces.clear();
  EXPECT_EQ(arena->used(), 0u);
  const std::size_t chunks = arena->take_new_chunks().size();
  auto whole = arena->allocate((std::size_t{2} << 20) - 64);  // the first piece is one again
  EXPECT_EQ(placed(*whole).chunk(), 0u);
  EXPECT_LE(chunks, 8u);
}

}  // namespace
}  // namespace uroce::service
