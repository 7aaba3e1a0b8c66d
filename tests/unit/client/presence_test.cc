#include "client/presence.h"

#include <cstddef>
#include <cstdint>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace uroce::client {
namespace {

constexpr std::size_t kPage = 4096, kPages = 5000;

/// A sparse memfd, mapped.
class Sparse {
 public:
  Sparse() : fd_(memfd_create("sparse", MFD_CLOEXEC)) {
    EXPECT_EQ(ftruncate(fd_, kPages * kPage), 0);
    data_ = static_cast<std::byte*>(mmap(nullptr, kPages * kPage, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0));
  }
  ~Sparse() {
    munmap(data_, kPages * kPage);
    close(fd_);
  }
  Sparse(const Sparse&) = delete;
  Sparse& operator=(const Sparse&) = delete;
  std::byte* data() const { return data_; }
  std::size_t pages() const {
    struct stat file{};
    EXPECT_EQ(fstat(fd_, &file), 0);
    return static_cast<std::size_t>(file.st_blocks) * 512 / kPage;
  }

 private:
  int fd_;
  std::byte* data_;
};

TEST(Presence, GivesPagesToWhatWasNeverTouched) {
  for (const bool writable : {false, true}) {
    const Sparse memory;
    memory.data()[7 * kPage] = std::byte{42};
    give_pages(memory.data(), kPages * kPage, writable);
    EXPECT_GE(memory.pages(), kPages);  // huge pages are more
    EXPECT_EQ(memory.data()[7 * kPage], std::byte{42});
  }
}

TEST(Presence, GivesPagesToTheRangeAlone) {
  const Sparse memory;
  give_pages(memory.data() + 2 * kPage + 100, kPage, true);
  EXPECT_GE(memory.pages(), 2u);
  EXPECT_LT(memory.pages(), kPages);
}

TEST(Presence, LeavesAloneWhatIsNotMapped) {
  void* const gone = mmap(nullptr, kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(gone, MAP_FAILED);
  munmap(gone, kPage);
  give_pages(gone, kPage, true);
}

}  // namespace
}  // namespace uroce::client
