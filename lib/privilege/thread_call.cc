#include "privilege/thread_call.h"

#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <system_error>
#include <thread>

namespace uroce::privilege {

namespace {

using Clock = std::chrono::steady_clock;

std::atomic<void (*)()> work_of_all{nullptr};
std::atomic<pid_t> answered{0};
static_assert(std::atomic<void (*)()>::is_always_lock_free && std::atomic<pid_t>::is_always_lock_free);

extern "C" void run_work(int) {
  const int code = errno;
  if (const auto work = work_of_all.load(std::memory_order_acquire)) work();
  answered.store(static_cast<pid_t>(syscall(SYS_gettid)), std::memory_order_release);
  errno = code;
}

int call_signal() { return SIGRTMIN + 7; }

Result<std::set<pid_t>> other_threads() {
  std::set<pid_t> out;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task", error)) {
    const std::string name = entry.path().filename();
    pid_t id = 0;
    std::from_chars(name.data(), name.data() + name.size(), id);
    if (id != gettid()) out.insert(id);
  }
  if (!error) return out;
  return fail(error.value(),
              fmt::format("cannot list the program's threads: /proc/self/task: {}; mount /proc", error.message()));
}

Result<void> call_one(pid_t thread, std::chrono::milliseconds limit) {
  answered.store(0, std::memory_order_relaxed);
  const auto signal = [thread](int number) { return syscall(SYS_tgkill, getpid(), thread, number); };
  if (signal(call_signal()) != 0) return {};  // it has ended
  const auto until = Clock::now() + limit;
  while (answered.load(std::memory_order_acquire) != thread) {
    if (signal(0) != 0) return {};
    if (Clock::now() >= until) {
      std::string name;
      std::getline(std::ifstream(fmt::format("/proc/self/task/{}/comm", thread)), name);
      return fail(ETIMEDOUT, fmt::format("thread {} ({}) of the program did not answer a signal within {} ms; a driver "
                                         "blocks the signal",
                                         thread, name, limit.count()));
    }
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  return {};
}

}  // namespace

Result<void> on_other_threads(void (*work)(), std::chrono::milliseconds limit) {
  work_of_all.store(work, std::memory_order_release);
  struct sigaction action{};
  action.sa_handler = run_work;
  action.sa_flags = SA_RESTART;
  sigfillset(&action.sa_mask);
  sigaction(call_signal(), &action, nullptr);
  std::set<pid_t> called;
  // Threads of the last list may have started others before their turn.
  for (bool found = true; found;) {
    const auto threads = other_threads();
    if (!threads) return std::unexpected(threads.error());
    found = false;
    for (const pid_t thread : *threads) {
      if (!called.insert(thread).second) continue;
      found = true;
      if (auto done = call_one(thread, limit); !done) return done;
    }
  }
  return {};
}

}  // namespace uroce::privilege
