// Registers memory of malloc(), ends the region, frees the memory, and looks for zeros in what calloc() gives then.
//
//   calloc_after ROUNDS defaults|purge|trim|arena
//
// `purge` has the allocator give its free memory back to the kernel in each round, `trim` has glibc keep all in the
// heap that brk(2) makes and trim it, and `arena` has a second thread do it, whose arena glibc shrinks by madvise(2).
#include <dlfcn.h>
#include <malloc.h>

#include <string_view>
#include <thread>

#include "ordinary.h"

using namespace ordinary;

namespace {

constexpr std::array<std::size_t, 6> kSizes = {4096, 20000, 65536, 300'000, 1 << 20, 4 << 20};
constexpr int kFill = 0xa5;

/// Gives free memory back by each allocator's own call; the one that is preloaded has it.
void purge() {
  using Mallctl = int (*)(const char*, void*, std::size_t*, void*, std::size_t);
  if (const auto call = reinterpret_cast<Mallctl>(dlsym(RTLD_DEFAULT, "mallctl"))) {
    if (call("arena.4096.purge", nullptr, nullptr, nullptr, 0) != 0) die("expected jemalloc to purge all arenas");
  } else if (const auto release =
                 reinterpret_cast<void (*)()>(dlsym(RTLD_DEFAULT, "MallocExtension_ReleaseFreeMemory"))) {
    release();
  } else if (const auto collect = reinterpret_cast<void (*)(bool)>(dlsym(RTLD_DEFAULT, "mi_collect"))) {
    collect(true);
  } else {
    malloc_trim(0);
  }
}

std::size_t count_other_than(const Byte* memory, std::size_t length, int value) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < length; ++i) count += memory[i] != value;
  return count;
}

/// A static variable, which no allocator has.
struct Counts {
  int dirty, lost, shared;
} counts;

void round(ibv_pd* pd, std::size_t size, bool purges) {
  auto* memory = static_cast<Byte*>(std::malloc(size));
  if (memory == nullptr) die("malloc() failed");
  std::memset(memory, kFill, size);
  register_and_deregister(pd, memory, size);
  counts.lost += count_other_than(memory, size, kFill) != 0;
  counts.shared += not_ordinary(memory, size) != 0;
  std::free(memory);
  if (purges) purge();
  memory = static_cast<Byte*>(std::calloc(size, 1));
  if (memory == nullptr) die("calloc() failed");
  counts.dirty += count_other_than(memory, size, 0) != 0;
  std::memset(memory, kFill, size);
  std::free(memory);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) die("write: calloc_after ROUNDS defaults|purge|trim|arena");
  const int rounds = std::atoi(argv[1]);
  const std::string_view how = argv[2];
  if (how == "trim" || how == "arena") {
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    mallopt(M_TRIM_THRESHOLD, 0);
    mallopt(M_TOP_PAD, 0);
  }
  ibv_pd* pd = open_pd();
  const auto work = [&] {
    for (int i = 0; i < rounds; ++i) round(pd, kSizes[static_cast<std::size_t>(i) % kSizes.size()], how != "defaults");
  };
  if (how == "arena")
    std::thread(work).join();
  else
    work();
  std::printf("calloc() gave dirty memory %d times of %d\n", counts.dirty, rounds);
  std::printf("content was lost at the end of a region %d times of %d\n", counts.lost, rounds);
  std::printf("pages were not private anonymous memory after the end of a region %d times of %d\n", counts.shared,
              rounds);
  return counts.dirty + counts.lost + counts.shared == 0 ? 0 : 1;
}
