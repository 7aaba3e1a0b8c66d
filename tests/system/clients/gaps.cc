// Sends small messages to itself until FOLDER/stop is there, one after the other. Tells how often it had to wait longer
// than MILLISECONDS for one. The time in which it, or an engine of the daemon, waited for a CPU does not count: on a
// busy machine that is not the engine's doing.
//
// Usage: gaps FOLDER MILLISECONDS DAEMON_PID
#include <algorithm>
#include <filesystem>

#include "side.h"

using namespace uroce;
using namespace uroce::test;

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kLook{10};

/// The time that some threads have waited for a CPU (/proc/PID/task/TID/schedstat, sched-stats.rst of the kernel).
class CpuWaits {
 public:
  explicit CpuWaits(const std::string& daemon) {
    files_.emplace_back("/proc/thread-self/schedstat");
    for (const auto& task : std::filesystem::directory_iterator("/proc/" + daemon + "/task")) {
      std::string name;
      std::getline(std::ifstream(task.path() / "comm"), name);
      if (name.find("-worker") != std::string::npos) files_.push_back(task.path() / "schedstat");
    }
    if (files_.size() == 1) die("the daemon has no thread that is named as an engine's");
    look();
  }
  void look() { seen_ = now(), at_ = Clock::now(); }
  void look_now_and_then() {
    if (Clock::now() - at_ > kLook) look();
  }
  Clock::duration since_last_look() const { return now() - seen_; }

 private:
  std::chrono::nanoseconds now() const {
    int64_t all = 0;
    for (const auto& file : files_) {
      int64_t ran = 0, waited = 0;
      std::ifstream(file) >> ran >> waited;
      all += waited;
    }
    return std::chrono::nanoseconds(all);
  }
  std::vector<std::filesystem::path> files_;
  std::chrono::nanoseconds seen_{0};
  Clock::time_point at_{};
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) die("usage: gaps FOLDER MILLISECONDS DAEMON_PID");
  CpuWaits waits(argv[3]);
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
    waits.look_now_and_then();
    const auto begin = Clock::now();
    exchange();
    auto took = Clock::now() - begin;
    if (took > limit) took -= std::min(took, waits.since_last_look());
    longest = std::max(longest, took);
    if (took > limit) ++gaps, all += took;
  }
  const auto ms = [](Clock::duration time) { return std::chrono::duration<double, std::milli>(time).count(); };
  std::printf("%llu rounds, %llu gaps, together %.1f ms, longest %.1f ms\n", static_cast<unsigned long long>(rounds),
              static_cast<unsigned long long>(gaps), ms(all), ms(longest));
}
