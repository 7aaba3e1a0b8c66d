#include "dropin/rsocket/keepalive.h"

#include <sys/timerfd.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <utility>

#include "dropin/rsocket/watcher.h"

namespace uroce::dropin::rsocket {

namespace {

int keepalive_default() {
  std::ifstream file("/proc/sys/net/ipv4/tcp_keepalive_time");
  int seconds = 0;
  return file >> seconds && seconds > 0 ? seconds : 7200;
}

}  // namespace

int Keepalive::seconds() const { return seconds_ != 0 ? seconds_ : keepalive_default(); }

int Keepalive::set_seconds(int seconds, std::function<void()> on_readable) {
  seconds_ = seconds;
  if (fd_ < 0) return 0;
  stop();
  return start(std::move(on_readable));
}

int Keepalive::start(std::function<void()> on_readable) {
  if (fd_ >= 0) return 0;
  seconds_ = seconds();
  fd_ = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
  if (fd_ < 0) return -1;
  itimerspec every{};
  every.it_interval.tv_sec = every.it_value.tv_sec = seconds_;
  timerfd_settime(fd_, 0, &every, nullptr);
  return Watcher::connections().add(fd_, std::move(on_readable)) ? 0 : -1;
}

void Keepalive::stop() {
  if (fd_ < 0) return;
  Watcher::connections().remove(fd_);
  reset();
}

bool Keepalive::expired() const {
  uint64_t times = 0;
  return read(fd_, &times, sizeof(times)) >= 0;
}

void Keepalive::reset() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

}  // namespace uroce::dropin::rsocket
