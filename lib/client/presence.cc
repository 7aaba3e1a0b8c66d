#include "client/presence.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include <sys/mman.h>

namespace uroce::client {
namespace {

constexpr uintptr_t kPageBytes = 4096;
constexpr std::size_t kPagesAtOnce = 4096;

}  // namespace

void give_pages(const void* address, std::size_t length, bool writable) {
  const auto start = reinterpret_cast<uintptr_t>(address);
  const uintptr_t end = start + length;
  std::array<unsigned char, kPagesAtOnce> present;
  for (uintptr_t at = start / kPageBytes * kPageBytes; at < end; at += kPagesAtOnce * kPageBytes) {
    const std::size_t bytes = std::min<uintptr_t>(kPagesAtOnce * kPageBytes, end - at);
    // NOLINTNEXTLINE(performance-no-int-to-ptr): the address of a whole page
    void* const page = reinterpret_cast<void*>(at);
    // mincore(2) is a fraction of what populating costs where all pages are there, as moved ones are.
    if (mincore(page, bytes, present.data()) != 0) return;
    const std::size_t pages = (bytes + kPageBytes - 1) / kPageBytes;
    if (std::all_of(present.begin(), present.begin() + static_cast<std::ptrdiff_t>(pages),
                    [](unsigned char byte) { return (byte & 1) != 0; })) {
      continue;
    }
    if (madvise(page, bytes, writable ? MADV_POPULATE_WRITE : MADV_POPULATE_READ) != 0) return;
  }
}

}  // namespace uroce::client
