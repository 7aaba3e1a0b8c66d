// Registers memory of a file, has it written by RDMA without end, and then cuts the file short beneath the daemon.
// Tells what became of the stream.
//
// Usage: shrink
#include <sys/mman.h>

#include "side.h"

using namespace uroce;
using namespace uroce::test;

int main() {
  constexpr std::size_t kFile = 1 << 20;
  constexpr uint32_t kLength = 65536;
  Side a("uroce0"), b("uroce1");
  const int fd = memfd_create("shrinks", 0);
  if (ftruncate(fd, kFile) != 0) die("ftruncate");
  void* memory = mmap(nullptr, kFile, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) die("mmap");
  const auto mr = must(b.pd.register_memory(memory, kFile, Side::kAll));
  auto from = a.make_qp(), to = b.make_qp();
  must(from.connect({b.context.info().gids[0], to.qpn(), 1}, {.psn = 1, .timeout = 16}));
  must(to.connect({a.context.info().gids[0], from.qpn(), 1}, {.psn = 1}));
  const Sge source = a.mr.sge(0, kLength);
  const auto write = [&](uint64_t i) {
    return from.post_send({.opcode = WrOpcode::rdma_write,
                           .flags = SendFlag::signaled,
                           .sges = {&source, 1},
                           .remote_addr = reinterpret_cast<uint64_t>(memory) + i % (kFile / kLength) * kLength,
                           .rkey = mr.rkey()});
  };
  for (uint64_t i = 0; i < 16; ++i) {
    if (write(i) != 0) die("post_send");
  }
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  for (uint64_t i = 0;; ++i) {
    if (i == 100 && ftruncate(fd, 4096) != 0) die("ftruncate");
    const auto completion = a.next([&] { return std::chrono::steady_clock::now() > limit; });
    if (!completion) die("the key does not end");
    if (completion->status != WcStatus::success) {
      std::printf("%s after %llu writes: status %d\n", i < 100 ? "too early" : "ended",
                  static_cast<unsigned long long>(i), static_cast<int>(completion->status));
      return 0;
    }
    (void)write(i);
  }
}
