#include "uroced/service_manager.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string_view>

#include <fmt/format.h>
#include <systemd/sd-daemon.h>

#include "uroced/notification.h"

namespace uroce::daemon {

namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

/// For the service manager to have read what was sent.
constexpr std::chrono::microseconds kBarrierLimit = std::chrono::seconds(5);

void free_all(char** names) {
  for (char** name = names; name != nullptr && *name != nullptr; ++name) std::free(*name);
  std::free(names);
}

}  // namespace

ServiceManager::ServiceManager() {
  const char* const room = std::getenv("FDSTORE");
  keeps_ = std::getenv("NOTIFY_SOCKET") != nullptr && room != nullptr && std::strtol(room, nullptr, 10) > 0;
  char** names = nullptr;
  const int count = sd_listen_fds_with_names(1, &names);
  for (int i = 0; i < count; ++i) {
    message::Fd fd(SD_LISTEN_FDS_START + i);
    if (!kept_ && std::string_view(names[i]) == kEstateName) kept_ = std::move(fd);
  }
  free_all(names);
}

void ServiceManager::ready(const std::string& status) { sd_notifyf(0, "READY=1\nSTATUS=%s", status.c_str()); }

void ServiceManager::reloading() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%lld",
             static_cast<long long>(now.tv_sec) * 1'000'000 + now.tv_nsec / 1000);
}

void ServiceManager::reloaded() { sd_notify(0, "READY=1"); }

void ServiceManager::stopping() { sd_notify(0, "STOPPING=1"); }

void ServiceManager::main_process(pid_t process) {
  if (process > 0) sd_notifyf(0, "MAINPID=%d", static_cast<int>(process));
}

void ServiceManager::start_watchdog() {
  uint64_t limit_us = 0;
  if (sd_watchdog_enabled(0, &limit_us) > 0) watchdog_.emplace(std::chrono::microseconds(limit_us));
}

milliseconds ServiceManager::time_to_look() const {
  if (!watchdog_) return milliseconds(-1);
  return std::chrono::ceil<milliseconds>(watchdog_->time_to_look(Clock::now()));
}

void ServiceManager::feed_watchdog(std::span<const uint64_t> rounds, Log& log) {
  if (!watchdog_) return;
  const auto verdict = watchdog_->look(Clock::now(), rounds);
  if (!verdict) return;
  for (const std::size_t i : verdict->stuck) {
    log.error("engine {} has made no round for {} ms; the watchdog is not fed", i,
              std::chrono::duration_cast<milliseconds>(watchdog_->interval()).count());
  }
  for (const std::size_t i : verdict->turning) log.warn("engine {} turns again", i);
  if (verdict->feed) sd_notify(0, "WATCHDOG=1");
}

// The other end of the descriptor is closed by then, which would make systemd drop it (FDPOLL).
Result<void> ServiceManager::keep(int fd) {
  const std::string text = fmt::format("FDSTORE=1\nFDNAME={}\nFDPOLL=0", kEstateName);
  int done = sd_pid_notify_with_fds(0, 0, text.c_str(), &fd, 1);
  if (done > 0) done = sd_notify_barrier(0, static_cast<uint64_t>(kBarrierLimit.count()));
  if (done > 0) return {};
  const int code = done < 0 ? -done : ENOTCONN;
  return fail(code, fmt::format("the service manager takes no descriptor: {}", std::strerror(code)));
}

void ServiceManager::forget() { sd_notifyf(0, "FDSTOREREMOVE=1\nFDNAME=%s", kEstateName); }

Result<void> ServiceManager::forget_now() {
  forget();
  const int done = sd_notify_barrier(0, static_cast<uint64_t>(kBarrierLimit.count()));
  if (done >= 0) return {};
  return fail(-done, fmt::format("the service manager has not closed what it keeps: {}", std::strerror(-done)));
}

}  // namespace uroce::daemon
