#include "dropin/rsocket/arrivals.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace uroce::dropin::rsocket {

namespace {

/// Bound on connections that wait for raccept(). The daemon's backlog bounds requests, which do not wait here.
constexpr std::size_t kWaitingMax = 4096;

}  // namespace

int Arrivals::open() {
  fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE);
  return fd_ < 0 ? -1 : 0;
}

void Arrivals::reset() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

bool Arrivals::full() const { return established_.size() + accepting_.size() >= kWaitingMax; }

void Arrivals::add(Connection connection) { accepting_.push_back(std::move(connection)); }

bool Arrivals::establish(const Stream* connection) {
  auto found = remove(connection);
  if (found == nullptr) return false;
  established_.push_back(std::move(found));
  eventfd_write(fd_, 1);
  return true;
}

Arrivals::Connection Arrivals::remove(const Stream* connection) {
  const auto found = std::ranges::find(accepting_, connection, &Connection::get);
  if (found == accepting_.end()) return nullptr;
  Connection taken = std::move(*found);
  accepting_.erase(found);
  return taken;
}

Arrivals::Connection Arrivals::take() {
  Connection taken = std::move(established_.front());
  established_.pop_front();
  eventfd_t one = 0;
  eventfd_read(fd_, &one);
  return taken;
}

std::deque<Arrivals::Connection> Arrivals::take_all() {
  std::deque<Connection> all = std::exchange(established_, {});
  all.insert(all.end(), accepting_.begin(), accepting_.end());
  accepting_.clear();
  return all;
}

}  // namespace uroce::dropin::rsocket
