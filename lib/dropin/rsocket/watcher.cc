#include "dropin/rsocket/watcher.h"

#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <system_error>
#include <utility>

#include "dropin/common/kernel_epoll.h"

namespace uroce::dropin::rsocket {

Watcher& Watcher::connections() {
  static Watcher& watcher = *new Watcher;
  return watcher;
}

Watcher& Watcher::addresses() {
  static Watcher& watcher = *new Watcher;
  return watcher;
}

bool Watcher::start() {
  if (epoll_ >= 0) return true;
  epoll_ = kernel_epoll::create();
  if (epoll_ < 0) return false;
  // Block signals: the application's threads handle them.
  sigset_t all, kept;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &kept);
  try {
    std::thread thread([this] { run(); });
    thread_ = thread.get_id();
    thread.detach();
  } catch (const std::system_error& error) {
    close(std::exchange(epoll_, -1));
    errno = error.code().value();
  }
  pthread_sigmask(SIG_SETMASK, &kept, nullptr);
  return epoll_ >= 0;
}

bool Watcher::add(int fd, std::function<void()> handler) {
  const std::lock_guard lock(mutex_);
  if (!start()) return false;
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  handlers_[fd] = std::make_shared<std::function<void()>>(std::move(handler));
  if (kernel_epoll::ctl(epoll_, EPOLL_CTL_ADD, fd, &event) == 0) return true;
  handlers_.erase(fd);
  return false;
}

void Watcher::remove(int fd) {
  std::unique_lock lock(mutex_);
  if (handlers_.erase(fd) == 0) return;
  kernel_epoll::ctl(epoll_, EPOLL_CTL_DEL, fd, nullptr);
  if (std::this_thread::get_id() != thread_) finished_.wait(lock, [&] { return running_ != fd; });
}

void Watcher::run() {
  while (true) {
    epoll_event event{};
    if (kernel_epoll::wait(epoll_, event) != 1) continue;
    std::unique_lock lock(mutex_);
    const auto found = handlers_.find(event.data.fd);
    if (found == handlers_.end()) continue;  // removed by another thread
    Handler handler = found->second;
    running_ = event.data.fd;
    lock.unlock();
    (*handler)();
    handler.reset();  // destroy its captures before remove() returns
    lock.lock();
    running_ = -1;
    finished_.notify_all();
  }
}

}  // namespace uroce::dropin::rsocket
