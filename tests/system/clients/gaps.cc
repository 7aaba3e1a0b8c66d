// Sends small messages to itself until FOLDER/stop is there, one after the other. Tells how long it had to wait.
//
// Usage: gaps FOLDER MILLISECONDS
#include <algorithm>

#include "side.h"

using namespace uroce;
using namespace uroce::test;

int main(int argc, char** argv) {
  if (argc != 3) die("usage: gaps FOLDER MILLISECONDS");
  using Clock = std::chrono::steady_clock;
  const std::string stop = std::string(argv[1]) + "/stop";
  const std::chrono::milliseconds limit(std::atoi(argv[2]));
  Side a("uroce0"), b("uroce1");
  auto from = a.make_qp(), to = b.make_qp();
  must(from.connect({b.context.info().gids[0], to.qpn(), 1}, {.psn = 1, .timeout = 20}));
  must(to.connect({a.context.info().gids[0], from.qpn(), 1}, {.psn = 1}));
  const Sge source = a.mr.sge(0, 64);
  const auto exchange = [&] {
    if (from.post_send({.opcode = WrOpcode::rdma_write,
                        .flags = SendFlag::signaled,
                        .sges = {&source, 1},
                        .remote_addr = reinterpret_cast<uint64_t>(b.memory.data()),
                        .rkey = b.mr.rkey()}) != 0) {
      die("post_send");
    }
    const auto completion = a.next([] { return false; });
    if (completion->status != WcStatus::success) die("status " + std::to_string(static_cast<int>(completion->status)));
  };
  exchange();
  std::puts("running"), std::fflush(stdout);
  uint64_t rounds = 0, gaps = 0;
  Clock::duration longest{0}, all{0};
  for (; rounds % 64 != 0 || !exists(stop); ++rounds) {
    const auto begin = Clock::now();
    exchange();
    const auto took = Clock::now() - begin;
    longest = std::max(longest, took);
    if (took > limit) ++gaps, all += took;
  }
  const auto ms = [](Clock::duration time) { return std::chrono::duration<double, std::milli>(time).count(); };
  std::printf("%llu rounds, %llu gaps, together %.1f ms, longest %.1f ms\n", static_cast<unsigned long long>(rounds),
              static_cast<unsigned long long>(gaps), ms(all), ms(longest));
}
