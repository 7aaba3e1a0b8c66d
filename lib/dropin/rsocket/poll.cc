// Waiting for rsockets together with other descriptors (rpoll(), rselect()).
#include "dropin/rsocket/looking.h"

#include <cerrno>

#include "dropin/common/report.h"

namespace uroce::dropin::rsocket {

namespace {

/// Registers the calling thread with the rsockets that wake it.
class Registered {
 public:
  explicit Registered(const std::vector<std::shared_ptr<Socket>>& sockets) : sockets_(sockets) {
    for (const auto& each : sockets_) {
      if (each != nullptr) each->waiters.add(Waiter::mine());
    }
  }
  Registered(const Registered&) = delete;
  Registered& operator=(const Registered&) = delete;
  ~Registered() {
    for (const auto& each : sockets_) {
      if (each != nullptr) each->waiters.remove(Waiter::mine());
    }
    Waiter::mine().clear();
  }

 private:
  const std::vector<std::shared_ptr<Socket>>& sockets_;
};

}  // namespace

Poll::Poll(std::span<pollfd> fds) : fds_(fds), sockets_(fds.size()) {
  for (std::size_t i = 0; i < fds.size(); ++i) {
    if (fds[i].fd >= 0) sockets_[i] = table::find(fds[i].fd);
  }
}

int Poll::look_at_plain() {
  std::vector<pollfd> plain(fds_.begin(), fds_.end());
  bool any = false;
  for (std::size_t i = 0; i < plain.size(); ++i) {
    if (sockets_[i] != nullptr) plain[i].fd = -1;
    any |= plain[i].fd >= 0;
  }
  if (!any) return 0;
  if (poll(plain.data(), plain.size(), 0) < 0) return -1;
  for (std::size_t i = 0; i < plain.size(); ++i) fds_[i].revents = plain[i].revents;
  return 0;
}

int Poll::look() {
  for (pollfd& each : fds_) each.revents = 0;
  if (look_at_plain() != 0) return -1;
  int ready = 0;
  for (std::size_t i = 0; i < fds_.size(); ++i) {
    if (sockets_[i] != nullptr) fds_[i].revents = sockets_[i]->ready(fds_[i].events);
    if (fds_[i].revents != 0) ++ready;
  }
  return ready;
}

int Poll::arm(std::vector<pollfd>& real) {
  for (std::size_t i = 0; i < fds_.size(); ++i) {
    real.push_back(fds_[i]);
    if (sockets_[i] == nullptr) continue;
    if (sockets_[i]->arm(fds_[i].events) != 0) return 1;
    real.back() = {sockets_[i]->wait_fd(), POLLIN, 0};
  }
  real.push_back({Waiter::mine().fd(), POLLIN, 0});
  return 0;
}

int Poll::sleep(Milliseconds most) {
  const Registered registered(sockets_);  // before arming, so that no change is missed
  std::vector<pollfd> real;
  real.reserve(fds_.size() + 1);
  if (arm(real) != 0) return 0;
  if (poll(real.data(), real.size(), static_cast<int>(most.count())) < 0) return -1;
  for (std::size_t i = 0; i < fds_.size(); ++i) {
    if (sockets_[i] != nullptr && real[i].revents != 0) sockets_[i]->take_event();
  }
  return 0;
}

namespace {

int select_timeout(const timeval* timeout) {
  if (timeout == nullptr) return -1;
  return static_cast<int>(timeout->tv_sec * 1000 + (timeout->tv_usec + 999) / 1000);
}

bool has(int fd, const fd_set* set) { return set != nullptr && FD_ISSET(fd, set); }

/// Adds `fd` to a set of results; returns how many were added.
int mark(int fd, fd_set* set, int revents, int wanted) {
  if (set == nullptr || (revents & wanted) == 0) return 0;
  FD_SET(fd, set);
  return 1;
}

}  // namespace

}  // namespace uroce::dropin::rsocket

using namespace uroce::dropin;
using namespace uroce::dropin::rsocket;

extern "C" {

int rpoll(pollfd* fds, nfds_t count, int timeout) {
  Poll polled({fds, count});
  return look_for(timeout, [&] { return polled.look(); }, [&](Milliseconds most) { return polled.sleep(most); });
}

int rselect(int count, fd_set* readable, fd_set* writable, fd_set* excepted, timeval* timeout) {
  std::vector<pollfd> fds;
  for (int fd = 0; fd < count; ++fd) {
    short events = 0;
    if (has(fd, readable)) events |= POLLIN;
    if (has(fd, writable)) events |= POLLOUT;
    if (events != 0 || has(fd, excepted)) fds.push_back({fd, events, 0});
  }
  const int ready = rpoll(fds.data(), fds.size(), select_timeout(timeout));
  if (ready < 0) return -1;
  fd_set wanted_writable{}, wanted_excepted{};
  const bool writes = writable != nullptr, excepts = excepted != nullptr;
  if (writes) wanted_writable = *writable;
  if (excepts) wanted_excepted = *excepted;
  if (readable != nullptr) FD_ZERO(readable);
  if (writes) FD_ZERO(writable);
  if (excepts) FD_ZERO(excepted);
  int marked = 0;
  for (const pollfd& each : fds) {
    if ((each.events & POLLIN) != 0) marked += mark(each.fd, readable, each.revents, POLLIN | POLLHUP | POLLERR);
    if (writes && FD_ISSET(each.fd, &wanted_writable))
      marked += mark(each.fd, writable, each.revents, POLLOUT | POLLERR);
    if (excepts && FD_ISSET(each.fd, &wanted_excepted))
      marked += mark(each.fd, excepted, each.revents, POLLPRI | POLLERR);
  }
  return marked;
}

}  // extern "C"
