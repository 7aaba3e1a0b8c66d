// uroce-run: runs an unmodified verbs program on uroce.
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <iostream>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <uroce/version.h>

#include "ci_report.h"
#include "daemon.h"
#include "descendants.h"
#include "explain.h"
#include "folder.h"
#include "network.h"
#include "places.h"
#include "process.h"
#include "recordings.h"
#include "tree.h"
#include "validate/misuse.h"
#include "view_server.h"

namespace {

namespace fs = std::filesystem;
using namespace uroce::run;

constexpr const char* kHelp =
    R"(uroce-run [--socket PATH] [--netns] [--explain] [--validate] [--faults FILE] COMMAND [ARGUMENT ...]
uroce-run --ci [--record DIR] [--junit FILE] [--fail-on left,troubles,misuse] [OPTION ...] COMMAND [ARGUMENT ...]

Runs an unmodified program that was written for libibverbs or librdmacm on uroce. The loader finds uroce's libraries first,
and /sys/class/infiniband, /dev/infiniband and NETLINK_RDMA sockets show the daemon's devices. If no daemon answers,
"uroced --demo" is started, with two devices joined back to back, and a line on stderr says so. All uroce-runs of the socket
share it, and it ends when no program uses it any more. The exit code is the command's.

  --socket PATH   the daemon's socket (default: the environment's UROCE_SOCKET, else /run/uroce/uroced.sock)
  --netns         run the command in a network namespace with an interface for each device, which has the device's name, MAC
                  and addresses: for programs that ask the kernel for an address (qperf, fi_pingpong, DAPL). Server and client
                  run in one: uroce-run --netns sh -c 'SERVER & CLIENT'
  --explain       print at the end which calls uroce refused to the command, how often and why
  --validate      find undefined behaviour of the command's programs: buffers that are not registered or still in use, queues
                  that overflow, destroyed objects, ... It is told on stderr, with --ci at the end. UROCE_VALIDATE=notes adds
                  what is only doubtful, and UROCE_VALIDATE=-WORD,... leaves misuses out
  --misuses       print the words of all misuses (Markdown)
  --faults FILE   start the daemon with these fault rules (uroce fault words), which lose, delay or change frames on purpose
  --ci            for tests: start devices of the command's own, and print at the end which objects its programs left (queue
                  pairs, regions, completions that were not polled, ...), what the daemon refused, and how queue pairs ended.
                  It ends programs that still use the devices 2 s after the command
  --record DIR    with --ci: keep recordings of how queue pairs ended, for uroce replay
  --junit FILE    with --ci: write that as JUnit XML, too
  --fail-on KIND  with --ci: exit with 1 after a good command whose programs left objects ("left"), had troubles
                  ("troubles"), misused verbs ("misuse", which validates), or any of several ("left,troubles")
  --version       print the version
  --help          print this text

Examples:
  uroce-run ibv_devinfo -v
  uroce-run sh -c 'ibv_rc_pingpong -d uroce0 -g 0 & sleep 1; ibv_rc_pingpong -d uroce1 -g 0 localhost'
  uroce-run ib_write_bw -d uroce0 -x 0                 # in one terminal, then in another:
  uroce-run ib_write_bw -d uroce1 -x 0 localhost
  uroce-run --explain ./my_program
  uroce-run --ci --junit rdma.xml --fail-on left make check
  uroce-run rdma resource show qp
  uroce-run sh -c 'prometheus-node-exporter --path.sysfs="$UROCE_SYSFS" --collector.infiniband'

With UROCE_VERBOSE=1 the libraries print why a call failed.
)";

/// Number of the daemon's devices, 0 when none listens or it has just ended. When it refuses or does not answer, -1,
/// and the reason is printed. Asks once: the library waits 30 s for a daemon that stands still.
int ask_daemon(const VerbsLibrary& verbs) {
  const bool aloud = std::getenv("UROCE_VERBOSE") != nullptr;
  const int errors = dup(STDERR_FILENO), held = memfd_create("uroce-run", MFD_CLOEXEC);
  if (errors >= 0 && held >= 0) dup2(held, STDERR_FILENO);
  setenv("UROCE_VERBOSE", "1", 1);
  int devices = verbs.count();
  if (devices < 0 && errno == EIO && ended_meanwhile(socket_in_use())) devices = 0;
  if (!aloud) unsetenv("UROCE_VERBOSE");
  std::fflush(stderr);
  if (errors >= 0) dup2(errors, STDERR_FILENO);
  if (aloud || devices < 0) {
    char text[1024];
    lseek(held, 0, SEEK_SET);
    for (ssize_t n = 0; (n = read(held, text, sizeof text)) > 0;) {
      std::fwrite(text, 1, static_cast<std::size_t>(n), stderr);
    }
  }
  close(held);
  close(errors);
  return devices;
}

void put_before(const char* variable, const std::string& text, char separator) {
  const char* old = std::getenv(variable);
  setenv(variable, (old != nullptr && *old != '\0' ? text + separator + old : text).c_str(), 1);
}

/// Sets the variables that the program and its children inherit.
void set_environment(const Places& places, const fs::path& tree) {
  std::string folders;
  for (const fs::path& folder : places.libraries) folders += (folders.empty() ? "" : ":") + folder.string();
  put_before("LD_LIBRARY_PATH", folders, ':');
  setenv("UROCE_LIBRARIES", folders.c_str(), 1);  // so that programs that get others can say so
  put_before("LD_PRELOAD", places.redirector, ':');
  setenv("UROCE_SYSFS", tree.c_str(), 1);
}

/// `env LD_PRELOAD=OTHER PROGRAM` would replace the redirector.
std::vector<std::string> keep_redirector(std::vector<std::string> command, const fs::path& redirector) {
  constexpr std::string_view kPreload = "LD_PRELOAD=";
  if (fs::path(command.front()).filename() != "env") return command;
  for (auto word = command.begin() + 1; word != command.end(); ++word) {
    if (word->starts_with(kPreload)) word->insert(kPreload.size(), redirector.string() + ":");
    if (!word->starts_with('-') && !word->contains('=')) break;
  }
  return command;
}

struct Options {
  bool netns = false;
  bool explain = false;
  bool validate = false;
  std::string socket{};
  fs::path faults{};
  CiOptions ci{};
};

/// Called before the command runs, too: a report that cannot be written is known before a long test, and an older one
/// is gone.
std::ofstream open_junit(const CiOptions& options) {
  std::error_code ignored;
  fs::create_directories(options.junit.parent_path(), ignored);
  std::ofstream file(options.junit);
  if (!file) {
    throw std::runtime_error("cannot write " + options.junit.string() + ": " + std::strerror(errno) +
                             "; --junit names the file");
  }
  return file;
}

/// The libraries will validate, each on its stderr or to `file`. The environment may ask for more.
void validate_to(const fs::path& file) {
  const char* given = std::getenv("UROCE_VALIDATE");
  const std::string words = given != nullptr && *given != '\0' ? given : "1";
  if (file.empty() || words.find("file:") != std::string::npos) {
    setenv("UROCE_VALIDATE", words.c_str(), 1);
  } else {
    setenv("UROCE_VALIDATE", (words + ",file:" + file.string()).c_str(), 1);
  }
}

/// Returns the exit code.
int tell_ci(const CiOptions& options, const std::vector<std::string>& command, const fs::path& refusals,
            const fs::path& misuses, const Recordings& recordings, int code) {
  CiReport report = CiReport::of_daemon();
  std::ifstream refused(refusals);
  report.forgive_probes(refused);
  std::ifstream found(misuses);
  report.add_misuses(found);
  report.end_running();
  report.print(options, std::cerr);
  recordings.tell(report.tells_of_ends(), std::cerr);
  if (!options.junit.empty()) {
    std::ofstream file = open_junit(options);
    report.write_junit(options, command, code, file);
    if (!file.flush()) throw std::runtime_error("cannot write " + options.junit.string() + "; is its disk full?");
  }
  return report.exit_code(options, code);
}

/// A daemon of the command's own ends with it, whoever still uses it.
struct OwnDaemon {
  std::optional<DemoDaemon> daemon{};
  OwnDaemon() = default;
  OwnDaemon(const OwnDaemon&) = delete;
  OwnDaemon& operator=(const OwnDaemon&) = delete;
  ~OwnDaemon() {
    if (daemon) daemon->end();
  }
};

int run(const std::vector<std::string>& command, const Options& options) {
  if (!options.ci.junit.empty()) open_junit(options.ci);
  const auto places = find_places();
  if (!places)
    throw std::runtime_error(
        "cannot find uroce's libibverbs.so.1 and liburoce-sysfs.so where they are built or installed; install uroce "
        "again");
  const VerbsLibrary verbs(places->libraries[0] / "libibverbs.so.1");
  DaemonUse use;
  const auto kept = options.ci.on ? DaemonUse::Kept::no_need : use.keep(socket_in_use());
  const int devices = options.ci.on ? 0 : ask_daemon(verbs);  // before signals are held: ^C ends the wait
  if (devices < 0) return 1;
  hold_signals();
  remove_abandoned();
  const RunFolder folder;
  if (options.ci.on) {
    setenv("UROCE_SOCKET", (folder.path() / "uroced.sock").c_str(), 1);
  } else if (devices == 0) {
    choose_demo_socket();
  }
  std::optional<Recordings> recordings;
  if (options.ci.on) recordings.emplace(options.ci.record, folder.path());
  OwnDaemon own;
  // A daemon that began or ended between the two questions is noticed here.
  if (devices == 0 || kept == DaemonUse::Kept::ending || use.keep(socket_in_use()) != kept) {
    auto started = bring_up_daemon(use, *places, verbs,
                                   {.folder = folder.path(),
                                    .faults = options.faults,
                                    .options = recordings ? recordings->daemon_options() : std::vector<std::string>(),
                                    .aloud = !options.ci.on,
                                    .keeps_user = options.ci.on});
    if (options.ci.on) own.daemon = std::move(started);
  } else if (!options.faults.empty()) {
    refuse_faults(options.faults);
  }
  if (held_signal() != 0) return 128 + held_signal();
  if (options.netns) enter_network_namespace();  // without the daemon, which others use
  const fs::path tree = folder.path() / "sys";
  OpenDevices open(verbs);
  std::optional<Interfaces> interfaces;
  if (options.netns) interfaces.emplace(open.views());
  const auto views = open.views();
  if (!write_tree(tree, views)) {
    throw std::runtime_error("cannot write below " + folder.path().string() +
                             "; set TMPDIR to a folder with free space");
  }
  ViewServer view(tree, open, views);
  set_environment(*places, tree);
  const auto follow = [&] {
    const bool more = open.take_events();
    return more && write_tree(tree, open.views());
  };
  const fs::path refusals = folder.path() / "refusals";
  if (options.explain || options.ci.on) collect_refusals(refusals);
  const fs::path misuses = folder.path() / "misuses";
  if (options.validate) validate_to(options.ci.on ? misuses : fs::path());
  const auto serve = [&view] {
    view.serve();
    return true;
  };
  if (options.ci.on) adopt_orphans();
  const int code = run_program(keep_redirector(command, places->redirector),
                               {{open.event_fds(), follow}, {{view.fd()}, serve}}, options.ci.on);
  if (options.explain) print_refusals(refusals, std::cerr);
  return options.ci.on ? tell_ci(options.ci, command, refusals, misuses, *recordings, code) : code;
}

/// Takes the option at `at`, with its value. False: it is none, or its value is missing or wrong.
bool take_option(const std::vector<std::string>& words, std::size_t& at, Options& options) {
  const std::string& option = words[at];
  if (option == "--netns") return options.netns = true;
  if (option == "--explain") return options.explain = true;
  if (option == "--ci") return options.ci.on = true;
  if (option == "--validate") return options.validate = true;
  if (at + 1 == words.size()) return false;
  const std::string& value = words[at + 1];
  if (option == "--socket") {
    options.socket = value;
  } else if (option == "--faults") {
    options.faults = fs::absolute(value);
  } else if (option == "--junit") {
    options.ci.junit = fs::absolute(value);
  } else if (option == "--record") {
    options.ci.record = fs::absolute(value);
  } else if (option != "--fail-on" || !set_fail_on(options.ci, value)) {
    return false;
  }
  options.validate = options.validate || options.ci.fail_on_misuses;
  ++at;
  return true;
}

/// Why these options do not go together; empty if they do.
std::string fault_of(const Options& options) {
  const CiOptions& ci = options.ci;
  if (!ci.on && !ci.record.empty()) return "--record is for --ci; add it, or record with uroced --record";
  if (!ci.on && (!ci.junit.empty() || ci.fail_on_left || ci.fail_on_troubles || ci.fail_on_misuses)) {
    return "--junit and --fail-on are for --ci; add it";
  }
  if (ci.on && !options.socket.empty()) {
    return "--ci starts devices of its own, and --socket names others; leave one out";
  }
  return {};
}

int usage_error(const std::string& text) {
  std::fprintf(stderr, "uroce-run: %s; see uroce-run --help\n", text.c_str());
  return 2;
}

}  // namespace

int main(int argc, char** argv) try {
  const std::vector<std::string> words(argv + 1, argv + argc);
  Options options;
  std::size_t at = 0;
  for (; at < words.size() && words[at].starts_with('-'); ++at) {
    const std::string& option = words[at];
    if (option == "--help" || option == "-h") return std::fputs(kHelp, stdout) < 0 ? 1 : 0;
    if (option == "--misuses") return std::printf("%s", uroce::validate::table_of_misuses().c_str()) < 0 ? 1 : 0;
    if (option == "--version") return std::printf("uroce-run %s\n", uroce::kVersion) < 0 ? 1 : 0;
    if (option == "--") {
      ++at;
      break;
    }
    if (!take_option(words, at, options)) {
      return usage_error("unknown option " + option + ", or its value is missing or wrong");
    }
  }
  if (at == words.size()) return usage_error("the command is missing");
  if (const std::string fault = fault_of(options); !fault.empty()) return usage_error(fault);
  if (!options.socket.empty()) setenv("UROCE_SOCKET", options.socket.c_str(), 1);
  return run({words.begin() + static_cast<std::ptrdiff_t>(at), words.end()}, options);
} catch (const std::exception& error) {
  std::fprintf(stderr, "uroce-run: %s\n", error.what());
  return 1;
}
