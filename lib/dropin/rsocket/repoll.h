// epoll(7) for rsockets and other descriptors: repoll_create(), repoll_ctl() and repoll_wait(), which rdma-core has had
// since release 65.
#pragma once

#include <sys/epoll.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "dropin/rsocket/looking.h"
#include "dropin/rsocket/waiters.h"

extern "C" {

/// Failures are -1 with errno, as of epoll(7). rdma-core's repoll_ctl() gives the positive errno value.
int repoll_create(int flags);
int repoll_ctl(int epfd, int op, int fd, epoll_event* event);
int repoll_wait(int epfd, epoll_event* events, int maxevents, int timeout);

}  // extern "C"

namespace uroce::dropin::rsocket {

/// A list of descriptors, looked at like poll(2): EPOLLET is as if it were not there, as in rdma-core.
class Repoll {
 public:
  /// `number` is a descriptor that the list owns.
  explicit Repoll(int number) : number_(number) {}
  Repoll(const Repoll&) = delete;
  Repoll& operator=(const Repoll&) = delete;
  ~Repoll();

  int number() const { return number_; }
  /// Each gives 0, or an errno value.
  int add(int fd, const epoll_event& event);
  int modify(int fd, const epoll_event& event);
  int remove(int fd);
  int wait(std::span<epoll_event> out, int timeout);

 private:
  struct Entry {
    int fd;
    epoll_event wanted;
    bool off;  ///< EPOLLONESHOT: it was reported
  };
  /// The descriptors that one thread waits for.
  struct Waiting {
    uint64_t changes = 0;
    std::vector<pollfd> fds;
    std::unique_ptr<Poll> poll;
  };

  // Callers hold mutex_.
  std::vector<Entry>::iterator find(int fd);
  void changed();

  void refresh(Waiting& waiting);
  /// Ready descriptors of `waiting` in `out`; returns their number.
  int report(const Waiting& waiting, std::span<epoll_event> out);

  const int number_;
  std::atomic<uint64_t> changes_{1};
  Waiters waiters_;
  std::mutex mutex_;  ///< guards the members below
  std::vector<Entry> entries_;
  std::size_t first_ = 0;  ///< the entry to report first, so that none is left out for ever
};

/// Lists by number. Any thread.
namespace repolls {
std::shared_ptr<Repoll> find(int number);
void add(std::shared_ptr<Repoll> list);
/// False when there is none.
bool remove(int number);
/// The descriptor is about to be closed: takes it from all lists.
void forget(int fd);
}  // namespace repolls

}  // namespace uroce::dropin::rsocket
