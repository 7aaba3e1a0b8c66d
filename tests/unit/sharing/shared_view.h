// A second mapping of segments, like the daemon's.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sharing/sharing.h"

namespace uroce::sharing {

/// Until the first thread of the process sleeps, in pthread_join(3) say.
inline void wait_until_main_sleeps() {
  for (char state = 'R'; state != 'S';) {
    std::ifstream stat("/proc/self/task/" + std::to_string(::getpid()) + "/stat");
    std::string number, name;
    stat >> number >> name >> state;
  }
}

class SharedView {
 public:
  /// `address` is what the segments were asked for.
  SharedView(const std::vector<SharedSegment>& segments, const void* address, bool writable = true) {
    for (const SharedSegment& segment : segments) map(segment, writable);
    skip_ = reinterpret_cast<uintptr_t>(address) % static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  }
  SharedView(const SharedView&) = delete;
  SharedView& operator=(const SharedView&) = delete;
  ~SharedView() {
    for (const Part& part : parts_) ::munmap(part.mapped, part.mapped_length);
  }

  /// The byte that is `index` bytes from the address.
  volatile uint8_t& operator[](std::size_t index) const {
    index += skip_;
    for (const Part& part : parts_) {
      if (index < part.length) return part.bytes[index];
      index -= part.length;
    }
    throw std::out_of_range("beyond the segments");
  }

 private:
  struct Part {
    void* mapped;
    std::size_t mapped_length;
    uint8_t* bytes;
    std::size_t length;
  };

  void map(const SharedSegment& segment, bool writable) {
    struct stat status{};
    if (::fstat(segment.fd, &status) != 0) throw std::runtime_error("the descriptor is not open");
    const std::size_t unit = std::max<std::size_t>(static_cast<std::size_t>(status.st_blksize), 4096);
    const std::size_t before = segment.offset % unit;
    const std::size_t length = (before + segment.length + unit - 1) / unit * unit;
    void* at = ::mmap(nullptr, length, PROT_READ | (writable ? PROT_WRITE : 0), MAP_SHARED, segment.fd,
                      static_cast<off_t>(segment.offset - before));
    if (at == MAP_FAILED) throw std::runtime_error("the segment cannot be mapped");
    parts_.push_back({at, length, static_cast<uint8_t*>(at) + before, segment.length});
  }

  std::vector<Part> parts_;
  std::size_t skip_ = 0;
};

}  // namespace uroce::sharing
