// Registers ROUNDS pieces of memory, each of a file of its own, and tells. Once FOLDER/go exists, it cuts each file
// short and lets an engine write there.
//
// Usage: take_back FOLDER ROUNDS
#include <sys/mman.h>

#include "side.h"

using namespace uroce;
using namespace uroce::test;

namespace {

constexpr std::size_t kPiece = 65536;

struct Piece {
  int fd;
  void* memory;
  MemoryRegion mr;
};

Piece make_piece(ProtectionDomain& pd) {
  const int fd = memfd_create("taken", 0);
  if (ftruncate(fd, kPiece) != 0) die("ftruncate");
  void* memory = mmap(nullptr, kPiece, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) die("mmap");
  return {fd, memory, must(pd.register_memory(memory, kPiece, Side::kAll))};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) die("usage: take_back FOLDER ROUNDS");
  const std::string folder = argv[1];
  Side a("uroce0"), b("uroce1");
  auto from = a.make_qp(), to = b.make_qp();
  must(from.connect({b.context.info().gids[0], to.qpn(), 1}, {.psn = 1, .timeout = 16}));
  must(to.connect({a.context.info().gids[0], from.qpn(), 1}, {.psn = 1}));
  std::vector<Piece> pieces;
  for (int i = 0; i < std::atoi(argv[2]); ++i) pieces.push_back(make_piece(b.pd));
  std::puts("registered"), std::fflush(stdout);
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(120);
  const auto late = [&] { return std::chrono::steady_clock::now() > limit; };
  while (!exists(folder + "/go")) {
    if (late()) die("nobody says go");
    usleep(1000);
  }
  std::size_t written = 0;
  for (const Piece& piece : pieces) {
    if (ftruncate(piece.fd, 0) != 0) die("ftruncate");
    const Sge source = a.mr.sge(0, kPiece);
    if (from.post_send({.opcode = WrOpcode::rdma_write,
                        .flags = SendFlag::signaled,
                        .sges = {&source, 1},
                        .remote_addr = reinterpret_cast<uint64_t>(piece.memory),
                        .rkey = piece.mr.rkey()}) != 0) {
      die("post_send");
    }
    const auto completion = a.next(late);
    if (!completion) die("no completion");
    if (completion->status != WcStatus::success) die("status " + std::to_string(static_cast<int>(completion->status)));
    ++written;
  }
  std::printf("%zu pieces taken back\n", written);
}
