#include "daemon.h"

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

#include <unistd.h>

#include "folder.h"
#include "message/protocol.h"
#include "process.h"

namespace uroce::run {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using message::LockByte;
using message::LockFile;
using message::LockKind;
using message::SocketOwner;

namespace {

constexpr auto kLimit = 60s;
constexpr auto kMoment = 2s;
constexpr auto kLook = 20ms;

/// The right to start a daemon. Nothing while another has it, or a daemon that a user started waits for it.
std::optional<SocketOwner> right_to_start(const std::string& socket) {
  if (const auto file = LockFile::open(socket, false);
      file && file->held_by_others(LockByte::claim) != LockKind::none) {
    return std::nullopt;
  }
  auto owner = SocketOwner::take(socket, true);
  if (owner) return std::move(*owner);
  if (owner.error().code == EADDRINUSE) return std::nullopt;
  throw std::runtime_error("cannot start a daemon: " + owner.error().text);
}

/// One start, from the first look to the daemon that answers.
class Start {
 public:
  Start(DaemonUse& use, const Places& places, const DaemonStart& how)
      : use_(use),
        places_(places),
        log_(how.folder / "uroced.log"),
        faults_(how.faults),
        more_(how.options),
        keeps_user_(how.keeps_user),
        socket_(socket_in_use()) {}

  /// Whether a daemon answers that stays for the command.
  bool answers(const VerbsLibrary& verbs) {
    const auto kept = use_.keep(socket_);
    return verbs.count() > 0 && kept != DaemonUse::Kept::ending && use_.keep(socket_) == kept;
  }

  /// Starts a daemon if there is none, and nobody else starts one.
  void go_on() {
    if (daemon_ && daemon_->alive()) return;
    auto owner = right_to_start(socket_);
    if (!owner) return;
    if (daemon_) give_up("ended before it answered; its output is above");
    if (places_.daemon.empty())
      throw std::runtime_error(
          "no daemon answers, and there is no uroced to start; install uroced, or put it into PATH");
    use_.keep(socket_);
    daemon_.emplace(places_.daemon, std::move(*owner), log_, options());
  }

  /// On the standard error, once.
  void say_what_it_waits_for() {
    if (said_) return;
    said_ = true;
    const auto file = LockFile::open(socket_, false);
    const pid_t process = file ? file->holder().process : 0;
    std::fprintf(stderr, "uroce-run: waiting for uroced (process %d), which is starting or ending, at %s\n", process,
                 socket_.c_str());
  }

  void say_what_it_started(bool aloud) {
    if (!daemon_ || !daemon_->alive()) {
      if (!faults_.empty()) refuse_faults(faults_);
      return;
    }
    if (aloud) {
      std::fprintf(stderr,
                   "uroce-run: no daemon answered; \"uroced --demo --socket %s\" runs until no program uses it\n",
                   socket_.c_str());
    }
    if (!faults_.empty()) say_its_faults();
  }

  const std::optional<DemoDaemon>& started() const { return daemon_; }

  void end_at_limit() {
    if (!daemon_ || !daemon_->alive())
      throw std::runtime_error("no daemon answered at " + socket_ + " within 60 s; uroce doctor says more");
    daemon_->kill();
    give_up("did not answer within 60 s; its output is above");
  }

 private:
  std::vector<std::string> options() const {
    std::vector<std::string> words = more_;
    if (!faults_.empty()) words.insert(words.end(), {"--faults", faults_});
    if (keeps_user_) words.insert(words.end(), {"--user", ""});
    return words;
  }

  /// The seeds, to repeat the run.
  void say_its_faults() const {
    std::ifstream log(log_);
    for (std::string line; std::getline(log, line);) {
      const auto at = line.find("fault rule ");
      if (at != std::string::npos) std::fprintf(stderr, "uroce-run: %s\n", line.c_str() + at);
    }
  }

  [[noreturn]] void give_up(const std::string& why) {
    std::cerr << std::ifstream(log_).rdbuf();
    throw std::runtime_error("uroced --demo " + why);
  }

  DaemonUse& use_;
  const Places& places_;
  const fs::path log_;
  const fs::path faults_;
  const std::vector<std::string> more_;
  const bool keeps_user_;
  const std::string socket_;
  std::optional<DemoDaemon> daemon_;
  bool said_ = false;
};

/// A folder of this user's that the runs of all terminals find.
fs::path own_folder() {
  const char* const runtime = std::getenv("XDG_RUNTIME_DIR");
  if (runtime != nullptr && *runtime != '\0' && access(runtime, W_OK) == 0) return fs::path(runtime) / "uroce";
  return temporary_folder() / ("uroce-" + std::to_string(geteuid()));
}

}  // namespace

DaemonUse::Kept DaemonUse::keep(const std::string& socket) {
  for (;;) {
    if (file_ && file_.current()) return Kept::yes;
    file_ = {};
    auto opened = LockFile::open(socket, false);
    if (!opened) return Kept::no_need;
    if (!opened->lock(LockByte::users, LockKind::shared)) return Kept::ending;
    file_ = std::move(*opened);
  }
}

std::string socket_in_use() {
  const char* const set = std::getenv("UROCE_SOCKET");
  return set != nullptr && *set != '\0' ? set : message::kDefaultSocket;
}

bool ended_meanwhile(const std::string& socket) {
  const auto file = LockFile::open(socket, false);
  if (!file) return access(socket.c_str(), F_OK) != 0;  // a daemon that ends removes the lock last
  const auto limit = std::chrono::steady_clock::now() + kMoment;
  while (file->held_by_others(LockByte::owner) != LockKind::none) {
    if (std::chrono::steady_clock::now() > limit) return false;
    std::this_thread::sleep_for(kLook);
  }
  return true;
}

void choose_demo_socket() {
  const char* const set = std::getenv("UROCE_SOCKET");
  if (set != nullptr && *set != '\0') return;
  const fs::path chosen = message::kDefaultSocket;
  std::error_code failed;
  fs::create_directories(chosen.parent_path(), failed);
  if (!failed && access(chosen.parent_path().c_str(), W_OK) == 0) return;
  const fs::path folder = own_folder();
  make_own(folder);
  setenv("UROCE_SOCKET", (folder / chosen.filename()).c_str(), 1);
}

void refuse_faults(const fs::path& faults) {
  const std::string socket = socket_in_use();
  throw std::runtime_error("--faults is for the daemon that uroce-run starts, and one answers already at " + socket +
                           "; give it the rules by: uroce fault add --socket " + socket + " --file " + faults.string());
}

std::optional<DemoDaemon> bring_up_daemon(DaemonUse& use, const Places& places, const VerbsLibrary& verbs,
                                          const DaemonStart& how) {
  Start start(use, places, how);
  const auto begin = std::chrono::steady_clock::now();
  while (!start.answers(verbs)) {
    if (held_signal() != 0) return start.started();
    start.go_on();
    const auto waited = std::chrono::steady_clock::now() - begin;
    if (waited > kLimit) start.end_at_limit();
    if (waited > kMoment) start.say_what_it_waits_for();
    std::this_thread::sleep_for(kLook);
  }
  start.say_what_it_started(how.aloud);
  return start.started();
}

}  // namespace uroce::run
