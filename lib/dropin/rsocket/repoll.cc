#include "dropin/rsocket/repoll.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <shared_mutex>
#include <unordered_map>

#include "base/no_cancel.h"
#include "dropin/common/report.h"

namespace uroce::dropin::rsocket {

namespace {

/// These have the same values for poll(2).
constexpr uint32_t kEvents = EPOLLIN | EPOLLPRI | EPOLLOUT | EPOLLERR | EPOLLHUP | EPOLLRDHUP;
static_assert(EPOLLIN == POLLIN && EPOLLPRI == POLLPRI && EPOLLOUT == POLLOUT);
static_assert(EPOLLERR == POLLERR && EPOLLHUP == POLLHUP && EPOLLRDHUP == 0x2000);

/// The calling thread hears of changes.
class Hearing {
 public:
  explicit Hearing(Waiters& of) : waiters_(of) { waiters_.add(Waiter::mine()); }
  Hearing(const Hearing&) = delete;
  Hearing& operator=(const Hearing&) = delete;
  ~Hearing() { waiters_.remove(Waiter::mine()); }

 private:
  Waiters& waiters_;
};

}  // namespace

Repoll::~Repoll() { close(number_); }

std::vector<Repoll::Entry>::iterator Repoll::find(int fd) { return std::ranges::find(entries_, fd, &Entry::fd); }

void Repoll::changed() {
  ++changes_;
  waiters_.wake();
}

int Repoll::add(int fd, const epoll_event& event) {
  const std::lock_guard lock(mutex_);
  if (find(fd) != entries_.end()) return EEXIST;
  entries_.push_back({fd, event, false});
  changed();
  return 0;
}

int Repoll::modify(int fd, const epoll_event& event) {
  const std::lock_guard lock(mutex_);
  const auto entry = find(fd);
  if (entry == entries_.end()) return ENOENT;
  *entry = {fd, event, false};
  changed();
  return 0;
}

int Repoll::remove(int fd) {
  const std::lock_guard lock(mutex_);
  const auto entry = find(fd);
  if (entry == entries_.end()) return ENOENT;
  entries_.erase(entry);
  changed();
  return 0;
}

void Repoll::refresh(Waiting& waiting) {
  if (waiting.changes == changes_) return;
  const std::lock_guard lock(mutex_);
  waiting.changes = changes_;
  waiting.fds.clear();
  for (const Entry& each : entries_) {
    waiting.fds.push_back({each.off ? -1 : each.fd, static_cast<short>(each.wanted.events & kEvents), 0});
  }
  waiting.poll = std::make_unique<Poll>(waiting.fds);
}

int Repoll::report(const Waiting& waiting, std::span<epoll_event> out) {
  const std::lock_guard lock(mutex_);
  if (waiting.changes != changes_) return 0;  // to be looked at anew
  std::size_t found = 0;
  bool fired = false;
  for (std::size_t i = 0; i < entries_.size() && found < out.size(); ++i) {
    const std::size_t at = (first_ + i) % entries_.size();
    // A plain descriptor that was closed has gone from an epoll, too.
    const auto ready = static_cast<uint16_t>(waiting.fds[at].revents & ~POLLNVAL);
    if (ready == 0) continue;
    Entry& entry = entries_[at];
    out[found] = entry.wanted;
    out[found++].events = ready;
    entry.off = (entry.wanted.events & EPOLLONESHOT) != 0;
    fired |= entry.off;
    if (found == out.size()) first_ = at + 1;
  }
  if (fired) ++changes_;
  return static_cast<int>(found);
}

int Repoll::wait(std::span<epoll_event> out, int timeout) {
  const Hearing hearing(waiters_);
  Waiting waiting;
  const auto look = [&] {
    refresh(waiting);
    const int ready = waiting.poll->look();
    return ready > 0 ? report(waiting, out) : ready;
  };
  return look_for(timeout, look, [&](Milliseconds most) { return waiting.poll->sleep(most); });
}

namespace repolls {

namespace {

struct Lists {
  std::shared_mutex mutex;
  std::unordered_map<int, std::shared_ptr<Repoll>> by_number;
};

Lists& all() {
  static Lists& lists = *new Lists;  // never destroyed: programs make calls until they exit
  return lists;
}

}  // namespace

std::shared_ptr<Repoll> find(int number) {
  const std::shared_lock lock(all().mutex);
  const auto found = all().by_number.find(number);
  return found != all().by_number.end() ? found->second : nullptr;
}

void add(std::shared_ptr<Repoll> list) {
  const std::lock_guard lock(all().mutex);
  const int number = list->number();
  all().by_number[number] = std::move(list);
}

bool remove(int number) {
  const std::lock_guard lock(all().mutex);
  return all().by_number.erase(number) != 0;
}

void forget(int fd) {
  const std::shared_lock lock(all().mutex);
  for (const auto& [number, list] : all().by_number) list->remove(fd);
}

}  // namespace repolls

}  // namespace uroce::dropin::rsocket

using namespace uroce::dropin;
using namespace uroce::dropin::rsocket;

extern "C" {

int repoll_create(int flags) {
  const uroce::NoCancel guard;
  if ((flags & ~EPOLL_CLOEXEC) != 0) return minus_one(EINVAL);
  const int number = eventfd(0, (flags & EPOLL_CLOEXEC) != 0 ? EFD_CLOEXEC : 0);
  if (number < 0) return -1;
  repolls::add(std::make_shared<Repoll>(number));
  return number;
}

int repoll_ctl(int epfd, int op, int fd, epoll_event* event) {
  const auto list = repolls::find(epfd);
  if (list == nullptr || epfd == fd || repolls::find(fd) != nullptr) return minus_one(EINVAL);
  if (op != EPOLL_CTL_DEL && event == nullptr) return minus_one(EFAULT);
  int error = EINVAL;
  switch (op) {
    case EPOLL_CTL_ADD: error = fcntl(fd, F_GETFD) < 0 ? EBADF : list->add(fd, *event); break;
    case EPOLL_CTL_MOD: error = list->modify(fd, *event); break;
    case EPOLL_CTL_DEL: error = list->remove(fd); break;
    default: break;
  }
  return error == 0 ? 0 : minus_one(error);
}

int repoll_wait(int epfd, epoll_event* events, int maxevents, int timeout) {
  const auto list = repolls::find(epfd);
  if (list == nullptr || maxevents <= 0) return minus_one(EINVAL);
  return list->wait({events, static_cast<std::size_t>(maxevents)}, timeout);
}

}  // extern "C"
