#include "uroced/daemon.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/resource.h>
#include <systemd/sd-daemon.h>
#include <time.h>

#include <uroce/version.h>
#include <atomic>
#include <cerrno>
#include <thread>

#include "base/secret.h"
#include "cm/manager.h"
#include "pmd_glue/notes.h"
#include "pmd_glue/stack_access.h"
#include "uroced/eal_choice.h"
#include "uroced/log.h"
#include "uroced/signals.h"

namespace uroce::daemon {

namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

/// An engine that does not answer delays a client by 5 s. Clients end at the same time.
constexpr auto kDrainLimit = std::chrono::seconds(30);

class Daemon {
 public:
  Daemon(const CommandLine& command, Config config)
      : command_(command), config_(std::move(config)), log_(std::make_shared<Log>(config_.log_level)) {}

  int run() {
    raise_descriptor_limit();
    if (auto ok = start(); !ok) {
      log_->error("{}", ok.error().text);
      return ok.error().code == EINVAL ? kUnusable : kFailed;
    }
    sd_notifyf(0, "READY=1\nSTATUS=serving %s", fmt::format("{}", fmt::join(stack_->devices(), ", ")).c_str());
    log_->info("serving {} on {}", fmt::join(stack_->devices(), ", "), config_.server.socket);
    for (;;) {
      const auto signal = next_signal(milliseconds(-1));
      if (signal == SIGHUP) reload();
      if (signal == SIGTERM || signal == SIGINT) return drain(*signal);
    }
  }

 private:
  Result<void> start() {
    const EalChoice eal = choose_eal(command_, config_, read_machine());
    for (const std::string& note : eal.notes) log_->warn("{}", note);
    log_->debug("uroced {}, EAL arguments: {}", kVersion, fmt::join(eal.args, " "));
    glue::set_note_writer([log = log_](glue::NoteLevel level, std::string_view text) {
      log->write(level == glue::NoteLevel::info ? LogLevel::info : LogLevel::warning, text);
    });
    auto stack = Stack::start(eal.args, config_.stack_options());
    if (!stack) return std::unexpected(stack.error());
    stack_.emplace(std::move(*stack));
    // The server's threads inherit the CPUs of this thread.
    glue::StackAccess::leave_engines_cpus(*stack_);
    const auto devices = glue::StackAccess::devices(*stack_);
    auto connections = cm::Manager::start(devices, Secret::fresh());
    if (!connections) return std::unexpected(connections.error());
    connections_ = std::move(*connections);
    service::PortAccess ports{
        .capture = [this](std::string_view device) { return glue::StackAccess::capture(*stack_, device); },
        .counters = [this](std::string_view device) { return glue::StackAccess::port_counters(*stack_, device); }};
    auto server = service::Server::start(config_.server, devices, log_of(*log_), connections_.get(), std::move(ports));
    if (!server) return std::unexpected(server.error());
    server_ = std::move(*server);
    if (stack_->embedded()) glue::StackAccess::return_to_main_lcore();
    return {};
  }

  /// Raises the limit of descriptors: each client has a connection, descriptors for events and shared memory.
  void raise_descriptor_limit() {
    rlimit limit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
  }

  /// Waits for a signal, at most `limit` (negative: for ever). With one lcore this runs the engines meanwhile.
  std::optional<int> next_signal(milliseconds limit) {
    if (!stack_->embedded()) return signals_.wait(limit);
    constexpr int kRounds = 16;
    constexpr milliseconds kNap{4};
    const auto until = Clock::now() + limit;
    for (;;) {
      for (int i = 0; i < kRounds; ++i) {
        if (!stack_->poll()) stack_->idle(kNap);
      }
      if (const auto signal = signals_.wait(milliseconds(0))) return signal;
      if (limit >= milliseconds(0) && Clock::now() >= until) return std::nullopt;
    }
  }

  void reload() {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%lld",
               static_cast<long long>(now.tv_sec) * 1'000'000 + now.tv_nsec / 1000);
    apply(load_config(command_));
    sd_notify(0, "READY=1");
  }

  void apply(const std::expected<Config, ConfigErrors>& next) {
    if (!next) {
      for (const std::string& error : next.error()) log_->error("{}", error);
      log_->error("SIGHUP: the file has errors; the settings stay as they are");
      return;
    }
    const auto changes = changes_between(config_, *next);
    Config wanted = config_;
    apply_live(wanted, *next);
    if (auto done = glue::StackAccess::set_addresses(*stack_, wanted.stack_options()); !done) {
      log_->error("{}", done.error().text);
      log_->error("SIGHUP: the settings stay as they are");
      return;
    }
    config_ = std::move(wanted);
    log_->set_level(config_.log_level);
    server_->set_budgets(config_.server.budgets);
    server_->set_max_clients(config_.server.max_clients);
    for (const Change& one : changes) {
      if (one.live) {
        log_->info("{} changes from {} to {}", one.key, one.before, one.after);
      } else {
        log_->warn("{} changes from {} to {} only when uroced is restarted", one.key, one.before, one.after);
      }
    }
    log_->info("SIGHUP: {}", changes.empty() ? "nothing has changed" : "the settings were read again");
  }

  int drain(int signal) {
    sd_notify(0, "STOPPING=1");
    signals_.leave_at_next();
    log_->info("{}: ending {} connections", signal == SIGTERM ? "SIGTERM" : "SIGINT", server_->clients().size());
    // On another thread, because this one may have to run engines.
    std::atomic<bool> stopped{false};
    std::thread stopper([&] {
      server_->stop();
      stopped = true;
    });
    const auto until = Clock::now() + kDrainLimit;
    while (!stopped && Clock::now() < until) next_signal(milliseconds(2));
    if (!stopped) {
      log_->error("connections did not end within {} s; ending anyway", kDrainLimit.count());
      log_->flush();
      _exit(kFailed);
    }
    stopper.join();
    server_.reset();
    connections_.reset();
    stack_.reset();
    log_->info("ended");
    return kOk;
  }

  const CommandLine& command_;
  Signals signals_;  // before any thread
  Config config_;
  std::shared_ptr<Log> log_;
  std::optional<Stack> stack_;
  std::unique_ptr<cm::Manager> connections_;
  std::unique_ptr<service::Server> server_;  // must end before the stack
};

}  // namespace

int run(const CommandLine& command, Config config) { return Daemon(command, std::move(config)).run(); }

}  // namespace uroce::daemon
