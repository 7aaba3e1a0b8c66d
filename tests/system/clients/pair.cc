// Two clients that exchange SENDs and WRITEs and check every byte, until FOLDER/stop is there. Anything else than
// success ends the program.
//
// Usage: pair FOLDER
#include <algorithm>
#include <cstring>

#include "side.h"

namespace {

using namespace uroce;
using namespace uroce::test;

constexpr uint32_t kLength = 16384;
constexpr std::size_t kInbox = 65536, kGuard = 131072;  // where messages arrive; what nobody may touch

std::byte byte_of(uint64_t round, std::size_t at) { return static_cast<std::byte>(round * 31 + at * 7 + (at >> 8)); }

void expect_success(const std::optional<Completion>& completion, const char* what) {
  if (!completion) die(std::string(what) + ": nothing came within 60 s");
  if (completion->status == WcStatus::success) return;
  die(std::string(what) + " ended with status " + std::to_string(static_cast<int>(completion->status)));
}

struct End {
  Side side;
  QueuePair qp;
  explicit End(const std::string& device) : side(device), qp(side.make_qp()) {
    std::fill(side.memory.begin() + kGuard, side.memory.end(), std::byte{0xa5});
  }
  std::optional<Completion> next() {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    return side.next([&] { return std::chrono::steady_clock::now() > limit; });
  }
  void check(uint64_t round, std::size_t at, const char* what) const {
    for (std::size_t i = 0; i < kLength; ++i) {
      if (side.memory[at + i] != byte_of(round, i)) die(std::string(what) + ": wrong byte " + std::to_string(i));
    }
    const auto touched = [](std::byte b) { return b != std::byte{0xa5}; };
    if (std::any_of(side.memory.begin() + kGuard, side.memory.end(), touched)) die("somebody wrote where nobody may");
  }
};

// One message each way of doing it, from `a` to `b`.
void exchange(End& a, End& b, uint64_t round) {
  for (std::size_t i = 0; i < kLength; ++i) a.side.memory[i] = byte_of(round, i);
  const Sge source = a.side.mr.sge(0, kLength), target = b.side.mr.sge(kInbox, kLength);
  if (b.qp.post_recv({.wr_id = round, .sges = {&target, 1}}) != 0) die("post_recv");
  const SendRequest requests[] = {{.wr_id = round,
                                   .opcode = WrOpcode::rdma_write,
                                   .sges = {&source, 1},
                                   .remote_addr = reinterpret_cast<uint64_t>(b.side.memory.data()) + kInbox + kLength,
                                   .rkey = b.side.mr.rkey()},
                                  {.wr_id = round, .flags = SendFlag::signaled, .sges = {&source, 1}}};
  SendRequest send = requests[1];
  send.opcode = WrOpcode::send;
  if (a.qp.post_send(requests[0]) != 0 || a.qp.post_send(send) != 0) die("post_send");
  expect_success(b.next(), "receive");
  expect_success(a.next(), "send");
  b.check(round, kInbox, "SEND");
  b.check(round, kInbox + kLength, "WRITE");
}

// A reader finds the whole number, or the one before.
void tell_rounds(const std::string& path, uint64_t round) {
  std::ofstream(path + ".new") << round << '\n';
  std::rename((path + ".new").c_str(), path.c_str());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) die("usage: pair FOLDER");
  const std::string folder = argv[1];
  End a("uroce0"), b("uroce1");
  // Patient: the machine may have fewer cores than this test has programs, and a stranger's bad behaviour takes time.
  must(a.qp.connect({b.side.context.info().gids[0], b.qp.qpn(), 2}, {.psn = 1, .timeout = 18}));
  must(b.qp.connect({a.side.context.info().gids[0], a.qp.qpn(), 1}, {.psn = 2, .timeout = 18}));
  b.side.address(b.qp, 2).write(folder + "/pair");
  uint64_t round = 0;
  while (!exists(folder + "/stop")) {
    exchange(a, b, ++round);
    exchange(b, a, ++round);
    if (round == 2) std::puts("running"), std::fflush(stdout);
    if (round % 64 == 0) tell_rounds(folder + "/rounds", round);
  }
  std::printf("%llu rounds\n", static_cast<unsigned long long>(round));
  return 0;
}
