// Where the thread of a successor's connection and the daemon's main thread meet.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "service/succession.h"
#include "uroced/signals.h"

namespace uroce::daemon {

class SuccessionDesk final : public service::SuccessionHost {
 public:
  struct Daemon {
    std::function<Result<std::vector<message::DeviceFacts>>()> facts;
    std::function<message::Belongings()> lend;
    std::function<message::RestartRow()> restart_row;
  };
  struct Request {
    message::SuccessionLink* link;
    int32_t pid;
    service::EstateVersions versions;
  };

  /// `signals` outlives this: its bell rings for each request.
  SuccessionDesk(const Signals& signals, Daemon daemon) : signals_(signals), daemon_(std::move(daemon)) {}

  // The connection's thread.
  Result<std::vector<message::DeviceFacts>> facts() override;
  message::Belongings lend() override;
  Error hand_over(message::SuccessionLink& successor, int32_t pid, const service::EstateVersions& versions) override;
  message::RestartRow restart_row() override;

  // The main thread.
  /// The successor that waits to take over, which then waits for refuse().
  std::optional<Request> request();
  void refuse(Error why);
  /// The daemon ends: refuses what waits, and what will come. Its functions are not called afterwards.
  void close();

 private:
  const Signals& signals_;
  const Daemon daemon_;
  std::mutex mutex_;  ///< guards the members below
  std::condition_variable answered_;
  std::optional<Request> request_;
  std::optional<Error> answer_;
  bool closed_ = false;
};

}  // namespace uroce::daemon
