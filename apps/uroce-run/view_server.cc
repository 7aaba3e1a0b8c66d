#include "view_server.h"

#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace uroce::run {

namespace {

using namespace std::chrono_literals;

constexpr const char* kSocket = "netlink";  // as lib/dropin/sysfs has it
constexpr std::size_t kMostAskers = 256;
constexpr auto kPeriod = 1s;
/// Files stay fresh so long after a program has read one: it may read regularly, and is seen only when it has read.
constexpr int kFreshSeconds = 300;
/// A program that reads all files in a row needs one refresh.
constexpr auto kFresh = 10ms;

}  // namespace

ViewServer::ViewServer(const std::filesystem::path& tree, const OpenDevices& devices,
                       const std::vector<DeviceView>& views)
    : source_(devices),
      files_(tree, views, source_),
      events_(epoll_create1(EPOLL_CLOEXEC)),
      looks_(inotify_init1(IN_CLOEXEC | IN_NONBLOCK)),
      timer_(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)) {
  listen(tree / kSocket);
  if (timer_) watch(timer_.get(), EPOLLIN, EPOLL_CTL_ADD);
  watch_folders();
  source_.disconnect();
}

void ViewServer::watch(int fd, uint32_t events, int operation) const {
  epoll_event event{};
  event.events = events;
  event.data.fd = fd;
  epoll_ctl(events_.get(), operation, fd, &event);
}

void ViewServer::listen(const std::filesystem::path& socket) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (socket.string().size() >= sizeof address.sun_path) return;
  std::strcpy(address.sun_path, socket.c_str());
  listener_ = message::Fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return;
  if (::listen(listener_.get(), SOMAXCONN) == 0) watch(listener_.get(), EPOLLIN, EPOLL_CTL_ADD);
}

// Reading, not opening: writing the files must not look like a look.
void ViewServer::watch_folders() {
  bool all = static_cast<bool>(looks_);
  for (const auto& folder : files_.folders()) {
    const int number = inotify_add_watch(looks_.get(), folder.c_str(), IN_ACCESS | IN_ONLYDIR);
    all = all && number >= 0;
    if (folder.filename().string().ends_with("counters")) counter_folders_.insert(number);
  }
  if (all) {
    watch(looks_.get(), EPOLLIN, EPOLL_CTL_ADD);
  } else {
    set_timer(kPeriod);  // This user has too many watches: nobody tells of looks.
    seconds_left_ = -1;
  }
}

void ViewServer::set_timer(std::chrono::seconds period) const {
  itimerspec spec{};
  spec.it_value.tv_sec = spec.it_interval.tv_sec = static_cast<time_t>(period.count());
  timerfd_settime(timer_.get(), 0, &spec, nullptr);
}

void ViewServer::refresh() {
  files_.refresh();
  refreshed_ = std::chrono::steady_clock::now();
}

bool ViewServer::take_looks() {
  alignas(inotify_event) std::array<char, 4096> events;  // NOLINT(cppcoreguidelines-pro-type-member-init)
  bool counters = false;
  for (ssize_t size = 0; (size = read(looks_.get(), events.data(), events.size())) > 0;) {
    for (const char* at = events.data(); at < events.data() + size;) {
      const auto* const event = reinterpret_cast<const inotify_event*>(at);
      counters = counters || counter_folders_.contains(event->wd);
      at += sizeof *event + event->len;
    }
  }
  return counters;
}

void ViewServer::keep_fresh(int seconds) {
  if (seconds_left_ < 0) return;
  if (seconds_left_ == 0) set_timer(kPeriod);
  seconds_left_ = std::max(seconds_left_, seconds);
}

void ViewServer::tick() {
  uint64_t ignored = 0;
  if (read(timer_.get(), &ignored, sizeof ignored) < 0) return;
  if (seconds_left_ > 0) --seconds_left_;
  if (seconds_left_ != 0) {
    refresh();
  } else {
    set_timer(0s);
    source_.disconnect();
  }
}

void ViewServer::accept() {
  message::Fd made(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!made || askers_.size() == kMostAskers) return;
  const int fd = made.get();
  watch(fd, EPOLLIN, EPOLL_CTL_ADD);
  askers_[fd].socket = std::move(made);
}

void ViewServer::serve(Asker& asker, uint32_t events) {
  const int fd = asker.socket.get();
  if (asker.answers.empty()) {
    std::array<std::byte, 16384> request;  // NOLINT(cppcoreguidelines-pro-type-member-init)
    const ssize_t size = recv(fd, request.data(), request.size(), MSG_DONTWAIT);
    if (size == 0 || (size < 0 && errno != EAGAIN)) {
      askers_.erase(fd);
      return;
    }
    if (size == 1) {  // no netlink message, which has a header: the library is about to open a counter
      refresh();
      keep_fresh(1);
      asker.answers.push_back({request[0]});
    } else if (size > 0) {
      keep_fresh(1);
      for (auto& packet : nldev::answer({request.data(), static_cast<std::size_t>(size)}, source_)) {
        asker.answers.push_back(std::move(packet));
      }
    }
  } else if ((events & (EPOLLHUP | EPOLLERR)) != 0) {
    askers_.erase(fd);
    return;
  }
  while (!asker.answers.empty()) {
    const nldev::Bytes& next = asker.answers.front();
    if (send(fd, next.data(), next.size(), MSG_DONTWAIT | MSG_NOSIGNAL) < 0 && errno == EAGAIN) break;
    asker.answers.pop_front();
  }
  watch(fd, asker.answers.empty() ? EPOLLIN : EPOLLOUT, EPOLL_CTL_MOD);
}

void ViewServer::serve() {
  std::array<epoll_event, 16> events{};
  const int count = epoll_wait(events_.get(), events.data(), events.size(), 0);
  for (int i = 0; i < count; ++i) {
    const int fd = events.at(i).data.fd;
    if (fd == listener_.get()) {
      accept();
    } else if (fd == looks_.get()) {
      keep_fresh(take_looks() ? kFreshSeconds : 1);
      if (std::chrono::steady_clock::now() > refreshed_ + kFresh) refresh();
    } else if (fd == timer_.get()) {
      tick();
    } else if (const auto asker = askers_.find(fd); asker != askers_.end()) {
      serve(asker->second, events.at(i).events);
    }
  }
}

}  // namespace uroce::run
