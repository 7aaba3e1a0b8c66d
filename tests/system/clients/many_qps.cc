// Creates, connects and destroys COUNT queue pairs, half of them on each device, with a message over some, and tells
// how long each step took.
//
// Usage: many_qps COUNT
#include "side.h"

namespace {

using namespace uroce;
using namespace uroce::test;

template <class Work>
void timed(const char* what, Work work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  std::printf("%s %.3f s\n", what, took.count());
  std::fflush(stdout);
}

void send_over(Side& a, QueuePair& from, const Side& b) {
  const Sge source = a.mr.sge(0, 4096);
  const int posted = from.post_send({.opcode = WrOpcode::rdma_write,
                                     .flags = SendFlag::signaled,
                                     .sges = {&source, 1},
                                     .remote_addr = reinterpret_cast<uint64_t>(b.memory.data()),
                                     .rkey = b.mr.rkey()});
  if (posted != 0) die("post_send");
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  const auto completion = a.next([&] { return std::chrono::steady_clock::now() > limit; });
  if (!completion || completion->status != WcStatus::success) die("a WRITE did not complete");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) die("usage: many_qps COUNT");
  const std::size_t each = std::strtoul(argv[1], nullptr, 10) / 2;
  Side a("uroce0"), b("uroce1");
  std::vector<QueuePair> on_a, on_b;
  timed("create", [&] {
    for (std::size_t i = 0; i < each; ++i) {
      on_a.push_back(a.make_qp());
      on_b.push_back(b.make_qp());
    }
  });
  const Gid gid_a = a.context.info().gids[0], gid_b = b.context.info().gids[0];
  timed("connect", [&] {
    for (std::size_t i = 0; i < each; ++i) {
      must(on_a[i].connect({gid_b, on_b[i].qpn(), 1}, {.psn = 1}));
      must(on_b[i].connect({gid_a, on_a[i].qpn(), 1}, {.psn = 1}));
    }
  });
  for (std::size_t i = 0; i < each; i += 97) send_over(a, on_a[i], b);
  timed("destroy", [&] {
    on_a.clear();
    on_b.clear();
  });
  return 0;
}
