#include "uroced/daemon.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/resource.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <uroce/version.h>
#include <atomic>
#include <cerrno>
#include <ctime>
#include <set>
#include <thread>

#include "base/secret.h"
#include "cm/manager.h"
#include "pmd_glue/notes.h"
#include "pmd_glue/stack_access.h"
#include "privilege/privilege.h"
#include "service/listener.h"
#include "uroced/eal_choice.h"
#include "uroced/hand_over.h"
#include "uroced/heritage.h"
#include "uroced/log.h"
#include "uroced/metrics_server.h"
#include "uroced/ping_answers.h"
#include "uroced/rights.h"
#include "uroced/signals.h"
#include "uroced/socket_right.h"
#include "uroced/watchdog.h"

namespace uroce::daemon {

namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

/// An engine that does not answer delays a client by 5 s. Clients end at the same time.
constexpr auto kDrainLimit = std::chrono::seconds(30);
/// How often a daemon that uroce-run started looks whether anybody needs it.
constexpr milliseconds kLookForUse{100};

class Daemon {
 public:
  Daemon(const CommandLine& command, Config config)
      : command_(command), config_(std::move(config)), log_(std::make_shared<Log>(config_.log_level)) {}

  int run() {
    raise_descriptor_limit();
    privilege::prepare_privileges();
    if (auto ok = start(); !ok) {
      log_->error("{}", ok.error().text);
      if (heritage_) heritage_->give_up(ok.error());
      end_services();
      return ok.error().code == EINVAL ? kUnusable : kFailed;
    }
    sd_notifyf(0, "READY=1\nSTATUS=serving %s", fmt::format("{}", fmt::join(stack_->devices(), ", ")).c_str());
    log_->info("serving {} on {}", fmt::join(stack_->devices(), ", "), config_.server.socket);
    start_watchdog();
    for (;;) {
      const auto signal = next_signal(time_to_look());
      feed_watchdog();
      if (signal == Signals::kBell) answer_successor();
      if (signal == SIGHUP) reload();
      if (signal == SIGTERM) return drain("SIGTERM");
      if (signal == SIGINT) return drain("SIGINT");
      if (unused()) return drain("no program uses this daemon, which uroce-run started");
    }
  }

 private:
  Result<void> start() {
    if (auto ok = take_socket(); !ok) return ok;
    const EalChoice eal = choose_eal(command_, config_, read_machine());
    for (const std::string& note : eal.notes) log_->warn("{}", note);
    log_->debug("uroced {}, EAL arguments: {}", kVersion, fmt::join(eal.args, " "));
    glue::set_note_writer([log = log_](glue::NoteLevel level, std::string_view text) {
      log->write(level == glue::NoteLevel::info ? LogLevel::info : LogLevel::warning, text);
    });
    auto stack = heritage_ ? glue::StackAccess::start(eal.args, config_.stack_options(),
                                                      [this](auto facts) { return ask_predecessor(std::move(facts)); })
                           : Stack::start(eal.args, config_.stack_options());
    if (!stack) return std::unexpected(stack.error());
    stack_.emplace(std::move(*stack));
    // The server's threads inherit the CPUs of this thread.
    glue::StackAccess::leave_engines_cpus(*stack_);
    const auto devices = glue::StackAccess::devices(*stack_);
    auto connections = cm::Manager::start(devices, Secret::fresh());
    if (!connections) return std::unexpected(connections.error());
    connections_ = std::move(*connections);
    if (auto ok = start_metrics(); !ok) return ok;
    if (auto ok = answer_pings(); !ok) return ok;
    service::PortAccess ports{
        .capture = [this](std::string_view device) { return glue::StackAccess::capture(*stack_, device); },
        .counters = [this](std::string_view device) { return glue::StackAccess::port_counters(*stack_, device); },
        .engines = [this] { return glue::StackAccess::engines(*stack_); }};
    if (auto ok = start_server(devices, std::move(ports)); !ok) return ok;
    if (stack_->embedded()) glue::StackAccess::return_to_main_lcore();
    return heritage_ ? take_over() : Result<void>();
  }

  // Before the ports are opened: daemons that start together must not share them, and the later one ends at once.
  Result<void> take_socket() {
    auto rights = Rights::plan(config_, *log_);
    if (!rights) return std::unexpected(rights.error());
    rights_ = std::move(*rights);
    if (command_.replace) {
      auto heritage = Heritage::find(config_.server.socket);
      if (!heritage) return std::unexpected(heritage.error());
      heritage_ = std::move(*heritage);
      return {};
    }
    rights_->make_folder_of_socket();
    auto right = SocketRight::take(config_.server.socket, signals_, *log_);
    if (!right) return std::unexpected(right.error());
    socket_right_ = std::move(*right);
    return {};
  }

  Result<message::Belongings*> ask_predecessor(std::vector<message::DeviceFacts> facts) {
    auto belongings = heritage_->ask(std::move(facts));
    if (!belongings) return belongings;
    auto right = heritage_->socket_right();
    if (!right) return std::unexpected(right.error());
    socket_right_ = std::move(*right);
    metrics_socket_ = MetricsServer::inherit(**belongings, config_.metrics_listen);
    return belongings;
  }

  Result<void> take_over() {
    if (auto ok = heritage_->take_over(*server_, *log_); !ok) return ok;
    glue::StackAccess::awaken(*stack_);
    socket_right_->become_owner();
    heritage_.reset();
    if (auto ok = metrics_socket_ ? start_metrics() : Result<void>(); !ok) log_->error("{}", ok.error().text);
    server_->begin();
    return {};
  }

  // Before the rights are given up, which every thread does then. A socket of the daemon before needs no right, and is
  // that one's until the end.
  Result<void> start_metrics() {
    if (config_.metrics_listen.empty() || (metrics_socket_ && heritage_)) return {};
    auto metrics =
        MetricsServer::start(config_.metrics_listen, [this] { return metrics_state(); }, std::move(metrics_socket_));
    if (!metrics) return std::unexpected(metrics.error());
    metrics_ = std::move(*metrics);
    log_->info("metrics are at http://{}/metrics", config_.metrics_listen);
    return {};
  }

  // Before any program can take the port. The thread gives its rights up as every thread does.
  Result<void> answer_pings() {
    const std::vector<std::string> names = stack_->devices();
    const std::vector<bool> wanted = config_.pings_answered(names.size());
    std::set<std::string> devices;
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (wanted[i]) devices.insert(names[i]);
    }
    if (devices.empty()) return {};
    auto pings = PingAnswers::start(*stack_, *connections_, std::move(devices));
    if (!pings) return std::unexpected(pings.error());
    pings_ = std::move(*pings);
    return {};
  }

  /// The thread of the metrics.
  std::optional<metrics::State> metrics_state() {
    const service::Server* server = serving_.load();
    if (server == nullptr) return std::nullopt;
    metrics::State state{.version = kVersion};
    for (const auto& device : glue::StackAccess::devices(*stack_)) {
      const DeviceInfo info = device->info();
      state.devices.push_back({.name = info.name,
                               .link_up = info.link_up,
                               .path_mtu_bytes = mtu_bytes(info.active_mtu),
                               .counters = server->counters(*device)});
    }
    state.engines = glue::StackAccess::engines(*stack_);
    state.clients = server->clients();
    state.users = server->users();
    return state;
  }

  Result<void> start_server(const std::vector<std::shared_ptr<control::Device>>& devices, service::PortAccess ports) {
    if (auto kept = socket_right_->keep(); !kept) return kept;
    rights_->keep_for(glue::StackAccess::drivers(*stack_));
    service::ServerConfig config = config_.server;
    config.owner = socket_right_->owner();
    if (heritage_) config.inherited = heritage_->belongings();
    desk_ = std::make_shared<SuccessionDesk>(
        signals_, SuccessionDesk::Daemon{.facts = [this] { return facts(); }, .lend = [this] { return lend(); }});
    config.succession = desk_;
    config.before_serving = [&] { return rights_->give_up(); };
    auto server =
        service::Server::start(std::move(config), devices, log_of(*log_), connections_.get(), std::move(ports));
    if (!server) return std::unexpected(server.error());
    server_ = std::move(*server);
    serving_ = server_.get();
    return rights_->leave_to_main_thread();
  }

  /// If systemd asks for it.
  void start_watchdog() {
    uint64_t limit_us = 0;
    if (sd_watchdog_enabled(0, &limit_us) > 0) watchdog_.emplace(std::chrono::microseconds(limit_us));
  }

  /// Programs that uroce-run does not know of may be there, too: it was killed, or did not start them.
  bool unused() const { return server_->clients().empty() && socket_right_->no_longer_needed(); }

  /// Negative: never.
  milliseconds time_to_look() const {
    if (socket_right_->of_uroce_run()) return kLookForUse;
    if (!watchdog_) return milliseconds(-1);
    return std::chrono::ceil<milliseconds>(watchdog_->time_to_look(Clock::now()));
  }

  void feed_watchdog() {
    if (!watchdog_) return;
    const auto verdict = watchdog_->look(Clock::now(), glue::StackAccess::rounds(*stack_));
    if (!verdict) return;
    for (const std::size_t i : verdict->stuck) {
      log_->error("engine {} has made no round for {} ms; the watchdog is not fed", i,
                  std::chrono::duration_cast<milliseconds>(watchdog_->interval()).count());
    }
    for (const std::size_t i : verdict->turning) log_->warn("engine {} turns again", i);
    if (verdict->feed) sd_notify(0, "WATCHDOG=1");
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

  // Clients' threads call these two.
  Result<std::vector<message::DeviceFacts>> facts() const {
    if (serving_ == nullptr) return fail(EAGAIN, "the running daemon is still starting; try again");
    return glue::StackAccess::facts(*stack_);
  }

  message::Belongings lend() const {
    message::Belongings out = glue::StackAccess::lend(*stack_);
    socket_right_->lend(out);
    out.lend(service::kListenerName, serving_.load()->listener());
    if (metrics_) metrics_->lend(out);
    return out;
  }

  void answer_successor() {
    if (const auto request = desk_->request()) desk_->refuse(hand_over(*request, *server_, *stack_, *log_));
  }

  int drain(std::string_view why) {
    sd_notify(0, "STOPPING=1");
    signals_.leave_at_a_later_one();
    desk_->close();
    log_->info("{}: ending {} connections", why, server_->clients().size());
    socket_right_.reset();  // the server gives it back, with the socket
    end_services();
    server_.reset();
    connections_.reset();
    stack_.reset();
    log_->info("ended");
    return kOk;
  }

  /// Ends what needs the engines, on another thread, because this one may have to run them.
  void end_services() {
    if (desk_) desk_->close();
    metrics_.reset();
    if (!pings_ && !server_) return;
    std::atomic<bool> stopped{false};
    std::thread stopper([&] {
      pings_.reset();
      if (server_) server_->stop();
      stopped = true;
    });
    const auto until = Clock::now() + kDrainLimit;
    while (!stopped && Clock::now() < until) {
      next_signal(milliseconds(2));
      feed_watchdog();
    }
    if (!stopped) {
      log_->error("connections did not end within {} s; ending anyway", kDrainLimit.count());
      log_->flush();
      _exit(kFailed);
    }
    stopper.join();
  }

  const CommandLine& command_;
  Signals signals_;  // before any thread
  Config config_;
  std::shared_ptr<Log> log_;
  std::optional<Rights> rights_;
  std::optional<Heritage> heritage_;  // until it is taken over
  message::Fd metrics_socket_;        // the same
  std::optional<SocketRight> socket_right_;
  std::optional<Stack> stack_;
  std::unique_ptr<cm::Manager> connections_;
  std::unique_ptr<PingAnswers> pings_;
  std::shared_ptr<SuccessionDesk> desk_;
  std::unique_ptr<service::Server> server_;  // must end before the stack
  std::atomic<const service::Server*> serving_{nullptr};
  std::unique_ptr<MetricsServer> metrics_;  // reads all of the above
  std::optional<Watchdog> watchdog_;
};

}  // namespace

int run(const CommandLine& command, Config config) { return Daemon(command, std::move(config)).run(); }

}  // namespace uroce::daemon
