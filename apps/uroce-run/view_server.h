// The live part of the tree: answers NETLINK_RDMA, and keeps the counters' files fresh.
//
// The preloaded library asks at a socket in the tree. It stays small, because every program of the command loads it. A
// static program, which does not load it, reads the files alone: they are refreshed when a program comes near them, and
// every second for some minutes after it has read one.
#pragma once

#include <chrono>
#include <deque>
#include <filesystem>
#include <map>
#include <set>

#include "counter_files.h"
#include "daemon_source.h"
#include "message/connection.h"

namespace uroce::run {

class ViewServer {
 public:
  /// `devices` must outlive this. Where the socket cannot be had, programs get the kernel's answers.
  ViewServer(const std::filesystem::path& tree, const OpenDevices& devices, const std::vector<DeviceView>& views);
  ViewServer(const ViewServer&) = delete;
  ViewServer& operator=(const ViewServer&) = delete;

  /// Readable when serve() has something to do.
  int fd() const { return events_.get(); }
  /// Never waits for a program.
  void serve();

 private:
  struct Asker {
    message::Fd socket;
    std::deque<nldev::Bytes> answers;  ///< not sent yet; no request is taken meanwhile
  };

  void watch(int fd, uint32_t events, int operation) const;
  void listen(const std::filesystem::path& socket);
  void watch_folders();
  void accept();
  void serve(Asker& asker, uint32_t events);
  void refresh();
  /// Whether a program has read counters, and not only come near them.
  bool take_looks();
  /// Stays connected for so many seconds, with files refreshed meanwhile.
  void keep_fresh(int seconds);
  void tick();
  void set_timer(std::chrono::seconds period) const;

  DaemonSource source_;
  CounterFiles files_;
  message::Fd events_, listener_, looks_, timer_;
  std::map<int, Asker> askers_;
  std::chrono::steady_clock::time_point refreshed_{};
  std::set<int> counter_folders_;  ///< as inotify numbers them
  int seconds_left_ = 0;           ///< -1: for ever
};

}  // namespace uroce::run
