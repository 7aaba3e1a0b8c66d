#include "pmd_glue/waker.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

namespace uroce::glue {

namespace {

std::string read_name(std::size_t engine) { return fmt::format("engine {} sleeps on", engine); }
std::string write_name(std::size_t engine) { return fmt::format("engine {} is woken by", engine); }

bool is_end_of_pipe(int fd, int access) {
  struct stat about{};
  return fstat(fd, &about) == 0 && S_ISFIFO(about.st_mode) && (fcntl(fd, F_GETFL) & O_ACCMODE) == access;
}

bool is_same_pipe(int a, int b) {
  struct stat of_a{};
  struct stat of_b{};
  return fstat(a, &of_a) == 0 && fstat(b, &of_b) == 0 && of_a.st_ino == of_b.st_ino && of_a.st_dev == of_b.st_dev;
}

}  // namespace

Waker::Waker() : epoll_(epoll_create1(EPOLL_CLOEXEC)) {
  int ends[2];
  if (pipe2(ends, O_NONBLOCK | O_CLOEXEC) != 0) return;  // only the limit ends sleeps then
  read_end_ = ends[0];
  write_end_ = ends[1];
  // new_descriptor() opens it again, also when the daemon is no longer the user that made it. Others reach the pipe by
  // a descriptor alone, and may not open the end that is read.
  fchmod(write_end_, S_IRUSR | S_IWUSR | S_IWGRP | S_IWOTH);
  watch(read_end_);
}

Waker::~Waker() {
  close(epoll_);
  if (read_end_ >= 0) close(read_end_);
  if (write_end_ >= 0) close(write_end_);
}

void Waker::lend(message::Belongings& belongings, std::size_t engine) const {
  belongings.lend(read_name(engine), read_end_);
  belongings.lend(write_name(engine), write_end_);
}

void Waker::inherit(message::Belongings& belongings, std::size_t engine) {
  message::Fd reads = belongings.take(read_name(engine));
  message::Fd writes = belongings.take(write_name(engine));
  if (!is_end_of_pipe(reads.get(), O_RDONLY) || !is_end_of_pipe(writes.get(), O_WRONLY)) return;
  if (!is_same_pipe(reads.get(), writes.get())) return;
  inherited_read_end_ = std::move(reads);
  inherited_write_end_ = std::move(writes);
}

// The old pipe ends with its last descriptors, and the epoll instance forgets it then. Other threads may be writing.
void Waker::awaken() {
  if (!inherited_read_end_) return;
  dup3(inherited_write_end_.get(), write_end_, O_CLOEXEC);
  dup3(inherited_read_end_.get(), read_end_, O_CLOEXEC);
  watch(read_end_);
  inherited_write_end_.reset();
  inherited_read_end_.reset();
  wake_always();
}

void Waker::wake_always() {
  const char token = 1;
  [[maybe_unused]] const auto written = write(write_end_, &token, 1);  // a full pipe wakes as well
}

Result<int> Waker::new_descriptor() const {
  // Open it again: a duplicate would share its flags with all others.
  const int fd = open(fmt::format("/proc/self/fd/{}", write_end_).c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
  if (fd >= 0) return fd;
  const int code = errno;
  return fail(code,
              fmt::format("cannot open a descriptor that wakes an engine: {}; check /proc and the limit of descriptors "
                          "(ulimit -n)",
                          std::strerror(code)));
}

bool Waker::sleep(Nanos limit) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(limit);
  const timespec timeout{.tv_sec = seconds.count(), .tv_nsec = (limit - seconds).count()};
  std::array<epoll_event, 64> events{};
  const int woken = epoll_pwait2(epoll_, events.data(), static_cast<int>(events.size()), &timeout, nullptr);
  sleeping_.store(false, std::memory_order_relaxed);
  (void)roused();
  for (int i = 0; i < woken; ++i) take_events(events[static_cast<std::size_t>(i)].data.fd);
  return woken != 0;
}

void Waker::take_events(int fd) const {
  std::array<char, 512> tokens;
  std::size_t bytes = fd == read_end_ ? tokens.size() : 0;
  for (const Counted& one : counted_) {
    if (one.fd == fd) bytes = one.bytes;
  }
  if (bytes != 0) [[maybe_unused]]
    const auto got = read(fd, tokens.data(), bytes);
}

bool Waker::watch(int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  if (epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) != 0) return false;
  std::array<char, 64> target{};
  (void)!readlink(fmt::format("/proc/self/fd/{}", fd).c_str(), target.data(), target.size() - 1);
  const std::string_view name(target.data());
  if (name == "anon_inode:[eventfd]") counted_.push_back({fd, 8});
  if (name.starts_with("/dev/uio")) counted_.push_back({fd, 4});
  return true;
}

}  // namespace uroce::glue
