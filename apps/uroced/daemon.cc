#include "uroced/daemon.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/resource.h>
#include <unistd.h>

#include <uroce/version.h>
#include <atomic>
#include <cerrno>
#include <set>
#include <thread>

#include "base/secret.h"
#include "cm/manager.h"
#include "hugepages/heap.h"
#include "pmd_glue/notes.h"
#include "pmd_glue/stack_access.h"
#include "privilege/privilege.h"
#include "service/fault_watch.h"
#include "service/listener.h"
#include "uroced/eal_choice.h"
#include "uroced/hand_over.h"
#include "uroced/heritage.h"
#include "uroced/keeper.h"
#include "uroced/log.h"
#include "uroced/metrics_server.h"
#include "uroced/metrics_state.h"
#include "uroced/ping_answers.h"
#include "uroced/reload.h"
#include "uroced/rights.h"
#include "uroced/service_manager.h"
#include "uroced/signals.h"
#include "uroced/socket_right.h"
#include "uroced/start_anew.h"
#include "uroced/supervised.h"

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
      if (heritage_ && heritage_->of_ended()) begin_anew();
      end_services();
      return ok.error().code == EINVAL ? kUnusable : kFailed;
    }
    manager_.ready(fmt::format("serving {}", fmt::join(stack_->devices(), ", ")));
    log_->info("serving {} on {}", fmt::join(stack_->devices(), ", "), config_.server.socket);
    manager_.start_watchdog();
    start_keeper();
    for (;;) {
      const auto signal = next_signal(time_to_look());
      feed_watchdog();
      if (signal == Signals::kBell) answer_successor();
      if (signal == SIGHUP) read_settings_again();
      if (signal == SIGTERM) leave_to_next_run();
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
        .engines = [this] { return glue::StackAccess::engines(*stack_); },
        .faults = glue::StackAccess::faults(*stack_)};
    if (auto ok = start_server(devices, std::move(ports)); !ok) return ok;
    if (stack_->embedded()) glue::StackAccess::return_to_main_lcore();
    memory_of_empty_ = hugepages::anonymous_bytes(getpid());
    return heritage_ ? take_over() : Result<void>();
  }

  // Before the ports are opened: daemons that start together must not share them, and the later one ends at once.
  Result<void> take_socket() {
    auto rights = Rights::plan(config_, *log_);
    if (!rights) return std::unexpected(rights.error());
    rights_ = std::move(*rights);
    auto kept = manager_.take_kept();
    if (kept || command_.replace) {
      auto heritage =
          kept ? Heritage::of_ended(config_.server.socket, std::move(kept)) : Heritage::find(config_.server.socket);
      if (heritage) {
        heritage_ = std::move(*heritage);
        return {};
      }
      const int code = heritage.error().code;
      if (!command_.replace_if_running || (code != ENOENT && code != ECONNREFUSED)) {
        return std::unexpected(heritage.error());
      }
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

  /// The last run of the service left nothing of use: its clients' connections end here. The service manager's copy
  /// holds the lock of the socket, which this program takes next.
  void begin_anew() {
    log_->warn("the clients of the uroced before end; starting without them");
    if (auto ok = manager_.forget_now(); !ok) log_->warn("{}", ok.error().text);
    log_->flush();
    start_anew();
  }

  Result<void> take_over() {
    auto taken = heritage_->take_over(*server_, *log_);
    if (!taken) return std::unexpected(taken.error());
    taken_over_ = std::move(*taken);
    glue::StackAccess::awaken(*stack_);
    socket_right_->become_owner();
    if (heritage_->of_ended()) manager_.forget();
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
  std::optional<metrics::State> metrics_state() const {
    const service::Server* server = serving_.load();
    return server != nullptr ? std::optional(read_metrics(*stack_, *server)) : std::nullopt;
  }

  Result<void> start_server(const std::vector<std::shared_ptr<control::Device>>& devices, service::PortAccess ports) {
    if (auto kept = socket_right_->keep(); !kept) return kept;
    rights_->keep_for(glue::StackAccess::drivers(*stack_));
    service::ServerConfig config = config_.server;
    config.owner = socket_right_->owner();
    if (heritage_) config.inherited = heritage_->belongings();
    desk_ = std::make_shared<SuccessionDesk>(
        signals_,
        SuccessionDesk::Daemon{
            .facts = [this] { return facts(); },
            .lend = [this] { return lend(); },
            .restart_row =
                [this] { return restart_row(*stack_, taken_over_ ? &*taken_over_ : nullptr, manager_.keeps()); }});
    config.succession = desk_;
    config.before_serving = [&] {
      auto done = rights_->give_up();
      end_with_supervisor();
      return done;
    };
    auto server =
        service::Server::start(std::move(config), devices, log_of(*log_), connections_.get(), std::move(ports));
    if (!server) return std::unexpected(server.error());
    server_ = std::move(*server);
    serving_ = server_.get();
    return rights_->leave_to_main_thread();
  }

  /// Programs that uroce-run does not know of may be there, too: it was killed, or did not start them.
  bool unused() const { return server_->clients().empty() && socket_right_->no_longer_needed(); }

  /// Negative: never.
  milliseconds time_to_look() const {
    if (socket_right_->of_uroce_run()) return kLookForUse;
    return manager_.time_to_look();
  }

  void feed_watchdog() { manager_.feed_watchdog(glue::StackAccess::rounds(*stack_), *log_); }

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
    constexpr milliseconds kNap{250};         // so late may a signal be
    constexpr milliseconds kBetweenLooks{4};  // a look is a system call
    const auto nap = limit < milliseconds(0) ? kNap : std::min(limit, kNap);
    const auto until = Clock::now() + limit;
    for (auto next_look = Clock::now();;) {
      if (!stack_->poll()) stack_->idle(nap);
      const auto now = Clock::now();
      if (now < next_look) continue;
      next_look = now + kBetweenLooks;
      if (const auto signal = signals_.wait(milliseconds(0))) return signal;
      if (limit >= milliseconds(0) && now >= until) return std::nullopt;
    }
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
    const auto request = desk_->request();
    if (!request) return;
    // The rows of the estate are smaller than its objects.
    const hugepages::HeapReserve reserve(hugepages::anonymous_bytes_beyond(memory_of_empty_, getpid()) / 2);
    keeper_.dismiss();
    desk_->refuse(hand_over(*request, *server_, *stack_, manager_, *log_));
    start_keeper();
  }

  void read_settings_again() {
    manager_.reloading();
    reload(command_, config_, *stack_, *server_, *log_);
    manager_.reloaded();
  }

  /// Returns only if this daemon is to end its clients itself.
  void leave_to_next_run() {
    keeper_.dismiss();
    if (!manager_.keeps()) return;
    const Error why = leave(*server_, *stack_, [this] { return lend(); }, manager_, *log_);
    log_->warn("the clients do not outlive this daemon: {}", why.text);
  }

  /// From now on the clients outlive this process, if somebody starts another.
  void start_keeper() {
    if (!config_.crash_recovery || !manager_.keeps()) return;
    service::FaultWatch::install();
    auto marked = server_->mark_steps();
    auto legacy = marked ? Legacy::begin() : std::unexpected(marked.error());
    auto started = legacy ? Result<void>() : std::unexpected(legacy.error());
    if (legacy) {
      legacy_.emplace(std::move(*legacy));
      started = keeper_.start(
          [this] { leave_after_crash(*legacy_, *server_, *stack_, [this] { return lend(); }, manager_, *log_); });
    }
    if (!started) log_->warn("{}; a crash will end the clients", started.error().text);
  }

  int drain(std::string_view why) {
    keeper_.dismiss();
    manager_.stopping();
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
  ServiceManager manager_;
  Config config_;
  std::shared_ptr<Log> log_;
  std::optional<Rights> rights_;
  std::optional<Heritage> heritage_;  // until it is taken over
  message::Fd metrics_socket_;        // the same
  std::optional<TakenOver> taken_over_;
  uint64_t memory_of_empty_ = 0;  // bytes, before any client
  std::optional<SocketRight> socket_right_;
  std::optional<Stack> stack_;
  std::unique_ptr<cm::Manager> connections_;
  std::unique_ptr<PingAnswers> pings_;
  std::shared_ptr<SuccessionDesk> desk_;
  std::unique_ptr<service::Server> server_;  // must end before the stack
  std::atomic<const service::Server*> serving_{nullptr};
  std::unique_ptr<MetricsServer> metrics_;  // reads all of the above
  std::optional<Legacy> legacy_;            // after a crash
  Keeper keeper_;                           // reads all of the above
};

}  // namespace

int run(const CommandLine& command, Config config) { return Daemon(command, std::move(config)).run(); }

}  // namespace uroce::daemon
