// A thread that calls handlers when descriptors become readable. It makes progress between an application's calls.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

namespace uroce::dropin::rsocket {

class Watcher {
 public:
  /// One serves the connections of all rsockets. The other resolves the addresses of datagrams, which can take long.
  /// Both stay until the process exits.
  static Watcher& connections();
  static Watcher& addresses();

  /// `handler` is called on the watcher's thread while `fd` is readable. False with errno.
  bool add(int fd, std::function<void()> handler);
  /// When this returns, the handler is not running, unless the handler itself is the caller.
  void remove(int fd);

 private:
  using Handler = std::shared_ptr<std::function<void()>>;

  void run();
  bool start();

  std::mutex mutex_;
  std::condition_variable finished_;
  std::map<int, Handler> handlers_;
  int epoll_ = -1;
  int running_ = -1;
  std::thread::id thread_;
};

}  // namespace uroce::dropin::rsocket
