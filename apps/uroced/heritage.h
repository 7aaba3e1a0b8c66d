// The daemon before, for one that takes over from it (--replace).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hugepages/heap.h"
#include "service/predecessor.h"
#include "service/server.h"
#include "uroced/log.h"
#include "uroced/restart_report.h"
#include "uroced/socket_right.h"

namespace uroce::daemon {

/// The main thread's. The other daemon goes on if this ends before take_over() has succeeded.
class Heritage {
 public:
  /// Errors: those of service::Predecessor::find().
  static Result<Heritage> find(const std::string& socket);

  /// The other daemon has ended, and left what `left` brings.
  static Heritage of_ended(std::string socket, message::Fd left) {
    return Heritage(std::move(socket), service::Predecessor::that_left(std::move(left)));
  }
  bool of_ended() const { return predecessor_->has_ended(); }

  /// Asks for what the other daemon has. Errors: those of service::Predecessor::take_over().
  Result<message::Belongings*> ask(std::vector<message::DeviceFacts> facts);
  /// After ask(). The right to the socket is the other daemon's until SocketRight::become_owner().
  const std::shared_ptr<message::Belongings>& belongings() const { return belongings_; }
  Result<SocketRight> socket_right() const { return SocketRight::share(socket_, *belongings_); }
  /// All that can fail is done. Takes over what clients have; the other daemon serves never again. Errors: that
  /// daemon's, or its silence; none where it has ended, but then clients may be missing.
  Result<TakenOver> take_over(service::Server& server, Log& log);
  /// Tells the other daemon why nothing comes of it.
  void give_up(const Error& why);

 private:
  Result<TakenOver> take(service::Server& server);
  Heritage(std::string socket, std::unique_ptr<service::Predecessor> predecessor)
      : socket_(std::move(socket)), predecessor_(std::move(predecessor)) {}

  std::string socket_;
  std::unique_ptr<service::Predecessor> predecessor_;
  std::shared_ptr<message::Belongings> belongings_;
  std::unique_ptr<hugepages::HeapReserve> reserve_;  ///< fetched while queue pairs work, not while they stand still
};

}  // namespace uroce::daemon
