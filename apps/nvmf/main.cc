// uroce_nvmf: an NVMe over Fabrics target over RDMA.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <exception>

#include "ending/end_signals.h"
#include "nvmf/command_line.h"
#include "nvmf/reactors.h"
#include "nvmf/rights.h"
#include "nvmf/stack_network.h"
#include "privilege/privilege.h"

namespace uroce::nvmf {
namespace {

constexpr int kOk = 0, kFailed = 1, kUnusable = 2;
std::atomic<bool> hung_up{false};  // by SIGHUP
static_assert(std::atomic<bool>::is_always_lock_free);
constexpr Nanos kFarewell = std::chrono::milliseconds(100);

Nanos clock_now() { return std::chrono::steady_clock::now().time_since_epoch(); }

int say(const Error& error, int code) {
  fmt::print(stderr, "uroce_nvmf: {}\n", error.text);
  return code;
}

/// The loops of all reactors but the first. They end with this.
class Loops {
 public:
  Loops(Network& network, Reactors& reactors) : network_(network), reactors_(reactors) {}
  ~Loops() {
    ending_.store(true, std::memory_order_relaxed);
    network_.join_loops();
  }
  Loops(const Loops&) = delete;
  Loops& operator=(const Loops&) = delete;

  Result<void> start() {
    for (uint32_t index = 1; index < reactors_.count(); ++index) {
      auto started = network_.start_loop(index, [this, index] {
        while (!ending_.load(std::memory_order_relaxed)) reactors_.run_once(index, clock_now());
      });
      if (!started) return started;
    }
    return {};
  }

 private:
  Network& network_;
  Reactors& reactors_;
  std::atomic<bool> ending_{false};
};

void print_counters(const Reactors& reactors) {
  for (uint32_t index = 0; index < reactors.count(); ++index) {
    const QueueCounters& counters = reactors.counters(index);
    fmt::print("uroce_nvmf: reactor {}: {} I/O queues, {} commands, {} bytes read, {} bytes written\n", index,
               counters.queues.get(), counters.commands.get(), counters.bytes_read.get(), counters.bytes_written.get());
  }
}

int serve(const Options& options) {
  std::vector<Subsystem> subsystems;
  for (const SubsystemSettings& settings : options.subsystems) {
    auto opened = open_subsystem(settings);
    // A disk that is in use may be free later, and systemd tries again.
    if (!opened) return say(opened.error(), opened.error().code == EBUSY ? kFailed : kUnusable);
    subsystems.push_back(std::move(*opened));
  }
  auto network =
      options.daemon ? open_daemon_network(options.daemon_options) : start_stack_network(options.eal, options.stack);
  if (!network) return say(network.error(), network.error().code == EINVAL ? kUnusable : kFailed);
  auto reactors = Reactors::start(**network, std::move(subsystems), options.listen, options.buffers);
  if (!reactors) return say(reactors.error(), kFailed);
  if (auto given = give_up_rights(options, **network); !given) return say(given.error(), kFailed);
  Loops loops(**network, **reactors);
  if (auto started = loops.start(); !started) return say(started.error(), kFailed);
  fmt::print("uroce_nvmf: serving {} subsystem(s) on {} port {}\n", options.subsystems.size(),
             options.listen.addresses.empty() ? "every address,"
                                              : fmt::format("{}", fmt::join(options.listen.addresses, ", ")),
             options.listen.port);
  std::fflush(stdout);
  while (!end_asked() && !(*reactors)->lost()) {
    (*reactors)->run_once(0, clock_now());
    if (hung_up.load(std::memory_order_relaxed) && hung_up.exchange(false)) (*reactors)->look_at_disks();
  }
  // The hosts hear of the end at once, and need not find out by a timeout.
  (*reactors)->close();
  for (const Nanos limit = clock_now() + kFarewell; clock_now() < limit;) (*reactors)->run_once(0, clock_now());
  print_counters(**reactors);
  if (!end_asked()) return say({EIO, "the uroce daemon has ended; start it, and then this program again"}, kFailed);
  return kOk;
}

int run(int argc, char** argv) {
  const auto options = parse_command_line(argc, argv);
  if (!options) {
    fmt::print(options.error().code == kOk ? stdout : stderr, "{}\n", options.error().text);
    return options.error().code;
  }
  privilege::prepare_privileges();
  catch_end_signals();
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGHUP, [](int) { hung_up.store(true, std::memory_order_relaxed); });
  return serve(*options);
}

}  // namespace
}  // namespace uroce::nvmf

int main(int argc, char** argv) {
  try {
    return uroce::nvmf::run(argc, argv);
  } catch (const std::exception& e) {
    fmt::print(stderr, "uroce_nvmf: ended by an exception: {}\n", e.what());
    return 1;
  }
}
