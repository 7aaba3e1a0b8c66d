#include "pmd_glue/waker.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cstdint>

namespace uroce::glue {

Waker::Waker() : event_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)), epoll_(epoll_create1(EPOLL_CLOEXEC)) { watch(event_); }

Waker::~Waker() {
  close(epoll_);
  close(event_);
}

void Waker::wake_always() {
  const uint64_t one = 1;
  [[maybe_unused]] const auto written = write(event_, &one, sizeof one);  // a full counter wakes as well
}

void Waker::sleep(Nanos limit) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(limit);
  const timespec timeout{.tv_sec = seconds.count(), .tv_nsec = (limit - seconds).count()};
  std::array<epoll_event, 4> events{};
  const int woken = epoll_pwait2(epoll_, events.data(), static_cast<int>(events.size()), &timeout, nullptr);
  sleeping_.store(false, std::memory_order_relaxed);
  if (woken == 0) return;
  uint64_t count = 0;
  [[maybe_unused]] const auto got = read(event_, &count, sizeof count);
}

bool Waker::watch(int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  return epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) == 0;
}

}  // namespace uroce::glue
