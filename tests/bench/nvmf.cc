// The price of NVMe over Fabrics: I/O through a target and a host of our own, beside the same I/O on the same backend
// without them. One thread runs both ends' engines, the target and the host. It polls; the CPU time of an I/O leaves
// out the passes that found nothing to do, and has what io_uring's own threads took.
//
// Usage: nvmf [NAMESPACE [SECONDS [ROUNDS]]]
//   NAMESPACE   as for uroce_nvmf (memory:64M); its contents are overwritten
//   SECONDS     of each measurement (1)
//   ROUNDS      local and remote in turns; medians are printed (3)
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "nvmf/config.h"
#include "nvmf/reactors.h"
#include "nvmf/stack_network.h"
#include "pmd_glue/eal_args.h"
#include "support/nvmf_initiator.h"

namespace {

using namespace uroce;
using namespace uroce::nvmf;
using namespace uroce::test;
using Clock = std::chrono::steady_clock;

constexpr char kNqn[] = "nqn.2024-01.org.example:bench";
constexpr uint32_t kMostDepth = 32;

template <class T>
T good(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().text);
  return std::move(*result);
}

struct Pattern {
  const char* name;
  bool write, random;
  uint32_t bytes, depth;
};
constexpr Pattern kPatterns[] = {
    {"4 KiB random reads, 1 at once", false, true, 4096, 1},
    {"4 KiB random reads, 32 at once", false, true, 4096, 32},
    {"4 KiB random writes, 32 at once", true, true, 4096, 32},
    {"128 KiB sequential reads, 8 at once", false, false, kTransferBytes, 8},
    {"128 KiB sequential writes, 8 at once", true, false, kTransferBytes, 8},
};

/// The offsets of a pattern, one after the other.
class Offsets {
 public:
  Offsets(const Pattern& pattern, uint64_t bytes)
      : random_(pattern.random), size_(pattern.bytes), count_(bytes / size_) {}
  uint64_t next() { return (random_ ? numbers_.next() % count_ : at_++ % count_) * size_; }

 private:
  bool random_;
  uint32_t size_;
  uint64_t count_, at_ = 0;
  Random numbers_{1};
};

/// The cost of one I/O, in microseconds.
struct Cost {
  double time = 0, cpu = 0;
};

double micros(Clock::duration time) { return std::chrono::duration<double, std::micro>(time).count(); }

double cpu_micros(clockid_t clock) {
  timespec at{};
  clock_gettime(clock, &at);
  return static_cast<double>(at.tv_sec) * 1e6 + static_cast<double>(at.tv_nsec) * 1e-3;
}

/// CPU time of the process, those of io_uring's threads with it, without that of idle passes. On a busy machine this
/// thread has the CPU for a share of the time only, of idle passes as of others.
class CpuMeter {
 public:
  double used(Clock::duration idle) const {
    const double mine = cpu_micros(CLOCK_THREAD_CPUTIME_ID) - thread_;
    const double share = std::min(1.0, mine / micros(Clock::now() - begin_));
    return std::max(0.0, cpu_micros(CLOCK_PROCESS_CPUTIME_ID) - process_ - micros(idle) * share);
  }

 private:
  Clock::time_point begin_ = Clock::now();
  double process_ = cpu_micros(CLOCK_PROCESS_CPUTIME_ID), thread_ = cpu_micros(CLOCK_THREAD_CPUTIME_ID);
};

/// The result of one look for ended I/Os.
struct Pass {
  uint32_t ended = 0;
  bool worked = false;
};

Cost measure(const Pattern& pattern, double seconds, const std::function<void()>& start,
             const std::function<Pass()>& pass) {
  uint64_t done = 0;
  uint32_t outstanding = 0;
  Clock::duration idle{};
  const CpuMeter cpu;
  const auto begin = Clock::now();
  const auto limit = begin + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  auto now = begin;
  for (bool going = true; going || outstanding > 0; going = going && now < limit) {
    const bool starts = going && outstanding < pattern.depth;
    for (; going && outstanding < pattern.depth; ++outstanding) start();
    const Pass found = pass();
    const auto after = Clock::now();
    if (!starts && !found.worked) idle += after - now;
    now = after;
    outstanding -= found.ended;
    done += found.ended;
  }
  const auto count = static_cast<double>(done);
  return {micros(now - begin) / count, cpu.used(idle) / count};
}

class Local final : public IoClient {
 public:
  explicit Local(Backend& backend) : backend_(backend) {}
  void done(Io& io, int error) override {
    if (error != 0) throw std::runtime_error("a local I/O failed");
    free_.push_back(&io);
    ++ended_;
  }
  Cost run(const Pattern& pattern, double seconds) {
    Offsets offsets(pattern, backend_.bytes());
    ios_.assign(pattern.depth, {});
    free_.clear();
    std::byte* data = pool_.memory().data();
    for (Io& io : ios_) {
      io = {.op = pattern.write ? Io::Op::write : Io::Op::read, .length = pattern.bytes, .data = data, .client = this};
      data += kTransferBytes;
      free_.push_back(&io);
    }
    const auto start = [&] {
      Io& io = *free_.back();
      free_.pop_back();
      io.offset = offsets.next();
      backend_.submit(io, ring_);
    };
    return measure(pattern, seconds, start, [&] {
      const bool worked = ring_.poll();
      return Pass{std::exchange(ended_, 0u), worked};
    });
  }

 private:
  Backend& backend_;
  IoRing ring_ = good(IoRing::open(64));
  BufferPool pool_ = good(BufferPool::make(kMostDepth));
  std::vector<Io> ios_;
  std::vector<Io*> free_;
  uint32_t ended_ = 0;
};

Cost run_remote(InitiatorQueue& queue, const Pattern& pattern, uint64_t bytes, uint32_t block, Reactors& reactors,
                double seconds) {
  Offsets offsets(pattern, bytes);
  uint32_t slot = 0;
  const auto start = [&] {
    const auto command =
        io_command(pattern.write ? nvme::kWrite : nvme::kRead, 1, offsets.next() / block, pattern.bytes / block);
    (void)queue.submit(queue.keyed(command, std::size_t{slot++ % pattern.depth} * pattern.bytes, pattern.bytes));
  };
  return measure(pattern, seconds, start, [&] {
    Pass found{.worked = reactors.poll(0, Clock::now().time_since_epoch())};
    for (auto response = queue.poll(); response; response = queue.poll(), ++found.ended) {
      if (status_of(*response) != nvme::Status::success) throw std::runtime_error("a command failed");
    }
    found.worked |= found.ended > 0;
    return found;
  });
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

Cost medians(const std::vector<Cost>& costs) {
  const auto of = [&](double Cost::* part) {
    std::vector<double> values;
    for (const Cost& cost : costs) values.push_back(cost.*part);
    return median(std::move(values));
  };
  return {of(&Cost::time), of(&Cost::cpu)};
}

void print(const Pattern& pattern, const Cost& local, const Cost& remote) {
  std::printf("%-38s %10.2f %10.2f %10.2f %10.2f %10.2f %10.2f %10.1f\n", pattern.name, local.time, remote.time,
              remote.time - local.time, local.cpu, remote.cpu, remote.cpu - local.cpu,
              pattern.bytes * 8e-3 / remote.time);
}

void run(const std::string& path, double seconds, int rounds) {
  auto eal = glue::private_arguments();
  eal.push_back("--no-pci");
  auto network = good(start_stack_network(eal, {.idle = IdlePolicy::busy, .back_to_back = true}));
  const NamespaceSettings disk = good(parse_namespace(path));
  std::vector<Subsystem> served;
  served.push_back(good(open_subsystem({.nqn = kNqn, .namespaces = {disk}})));
  // The target takes the subsystem, and the backend stays where it is. A block device has no room for a second one.
  Backend& backend = *served[0].namespaces[0].backend;
  const uint32_t block = 1u << served[0].namespaces[0].block_shift;
  const auto reactors = good(Reactors::start(*network, std::move(served), {}, 8 * kMostDepth));
  InitiatorHost host(network->connections(), good(network->device("uroce0")),
                     [&] { reactors->poll(0, Clock::now().time_since_epoch()); });
  const CmAddress target{good(network->device("uroce1")).info().gids[0], 4420};
  InitiatorQueue admin(host, target, 0, 32), io(host, target, 1, 64);
  if (status_of(io.connect(kNqn, "nqn.bench", 1, make_controller(admin, kNqn, "nqn.bench"))) != nvme::Status::success) {
    throw std::runtime_error("Connect failed");
  }
  Local local(backend);
  std::printf("%-38s %10s %10s %10s %10s %10s %10s %10s\n", path.c_str(), "local us", "remote us", "more us",
              "local CPU", "remote CPU", "more CPU", "remote Gb/s");
  const uint64_t bytes = backend.bytes();
  for (const Pattern& pattern : kPatterns) {
    std::vector<Cost> alone, over;
    for (int round = 0; round < rounds; ++round) {
      alone.push_back(local.run(pattern, seconds));
      over.push_back(run_remote(io, pattern, bytes, block, *reactors, seconds));
    }
    print(pattern, medians(alone), medians(over));
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run(argc > 1 ? argv[1] : "memory:64M", argc > 2 ? std::atof(argv[2]) : 1,
        argc > 3 ? std::max(1, std::atoi(argv[3])) : 3);
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "nvmf: %s\n", e.what());
    return 1;
  }
}
