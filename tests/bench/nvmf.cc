// The price of NVMe over Fabrics: I/O through a target and a host of our own, beside the same I/O on the same backend
// without them. One thread runs both ends' engines, the target and the host, so that the time of an I/O is the CPU time
// of both ends together.
//
// Usage: nvmf [NAMESPACE [SECONDS]]      NAMESPACE: as for uroce_nvmf (memory:64M); SECONDS of each figure (1)
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

/// Microseconds of one I/O. `start` starts one, `ended` returns how many have ended since it was last asked.
double measure(const Pattern& pattern, double seconds, const std::function<void()>& start,
               const std::function<uint32_t()>& ended) {
  uint64_t done = 0;
  uint32_t outstanding = 0;
  const auto begin = Clock::now();
  const auto limit = begin + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  for (bool going = true; going || outstanding > 0; going = going && Clock::now() < limit) {
    for (; going && outstanding < pattern.depth; ++outstanding) start();
    const uint32_t count = ended();
    outstanding -= count;
    done += count;
  }
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count() / static_cast<double>(done);
}

class Local final : public IoClient {
 public:
  explicit Local(Backend& backend) : backend_(backend) {}
  void done(Io& io, int error) override {
    if (error != 0) throw std::runtime_error("a local I/O failed");
    free_.push_back(&io);
    ++ended_;
  }
  double run(const Pattern& pattern, double seconds) {
    Offsets offsets(pattern, backend_.bytes());
    ios_.assign(pattern.depth, {});
    free_.clear();
    for (Io& io : ios_) {
      io = {.op = pattern.write ? Io::Op::write : Io::Op::read,
            .length = pattern.bytes,
            .data = pool_.take(),
            .client = this};
      free_.push_back(&io);
    }
    const auto start = [&] {
      Io& io = *free_.back();
      free_.pop_back();
      io.offset = offsets.next();
      backend_.submit(io, ring_);
    };
    const double time = measure(pattern, seconds, start, [&] { return ring_.poll(), std::exchange(ended_, 0u); });
    for (Io& io : ios_) pool_.give(io.data);
    return time;
  }

 private:
  Backend& backend_;
  IoRing ring_ = good(IoRing::open(64));
  BufferPool pool_ = good(BufferPool::make(kMostDepth));
  std::vector<Io> ios_;
  std::vector<Io*> free_;
  uint32_t ended_ = 0;
};

double run_remote(InitiatorQueue& queue, const Pattern& pattern, uint64_t bytes, uint32_t block, Reactors& reactors,
                  double seconds) {
  Offsets offsets(pattern, bytes);
  uint32_t slot = 0;
  const auto start = [&] {
    const auto command =
        io_command(pattern.write ? nvme::kWrite : nvme::kRead, 1, offsets.next() / block, pattern.bytes / block);
    (void)queue.submit(queue.keyed(command, std::size_t{slot++ % pattern.depth} * pattern.bytes, pattern.bytes));
  };
  return measure(pattern, seconds, start, [&] {
    reactors.poll(0, Clock::now().time_since_epoch());
    uint32_t count = 0;
    for (auto response = queue.poll(); response; response = queue.poll(), ++count) {
      if (status_of(*response) != nvme::Status::success) throw std::runtime_error("a command failed");
    }
    return count;
  });
}

void run(const std::string& path, double seconds) {
  auto eal = glue::one_cpu_arguments();
  eal.push_back("--no-pci");
  auto network = good(start_stack_network(eal, {.idle = IdlePolicy::busy, .back_to_back = true}));
  const NamespaceSettings disk = good(parse_namespace(path));
  const auto open = [&] { return good(open_subsystem({.nqn = kNqn, .namespaces = {disk}})); };
  Subsystem beside = open();
  Namespace& local_disk = beside.namespaces[0];
  std::vector<Subsystem> served;
  served.push_back(open());
  const auto reactors = good(Reactors::start(*network, std::move(served), {}, 64));
  InitiatorHost host(network->connections(), good(network->device("uroce0")),
                     [&] { reactors->poll(0, Clock::now().time_since_epoch()); });
  const CmAddress target{good(network->device("uroce1")).info().gids[0], 4420};
  InitiatorQueue admin(host, target, 0, 32), io(host, target, 1, 64);
  if (status_of(io.connect(kNqn, "nqn.bench", 1, make_controller(admin, kNqn, "nqn.bench"))) != nvme::Status::success) {
    throw std::runtime_error("Connect failed");
  }
  Local local(*local_disk.backend);
  std::printf("%-38s %10s %10s %10s %10s\n", path.c_str(), "local us", "remote us", "more us", "remote Gb/s");
  for (const Pattern& pattern : kPatterns) {
    const double alone = local.run(pattern, seconds);
    const double over =
        run_remote(io, pattern, local_disk.backend->bytes(), 1u << local_disk.block_shift, *reactors, seconds);
    std::printf("%-38s %10.2f %10.2f %10.2f %10.1f\n", pattern.name, alone, over, over - alone,
                pattern.bytes * 8e-3 / over);
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run(argc > 1 ? argv[1] : "memory:64M", argc > 2 ? std::atof(argv[2]) : 1);
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "nvmf: %s\n", e.what());
    return 1;
  }
}
