// A planned restart, on the side of the successor: the daemon that runs, or one that has ended for it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <uroce/error.h>

#include "message/belongings.h"
#include "message/succession_link.h"
#include "message/succession_messages.h"

namespace uroce::service {

/// One thread. The running daemon goes on as it was when this ends before imported() has succeeded.
class Predecessor {
 public:
  /// Errors: ENOENT or ECONNREFUSED (no daemon runs there), EOPNOTSUPP (it is too old), EPROTONOSUPPORT, and those of
  /// connect(2).
  static Result<std::unique_ptr<Predecessor>> find(const std::string& socket);

  /// `left`: a socket with all that a daemon sent before it ended.
  static std::unique_ptr<Predecessor> that_left(message::Fd left);

  bool has_ended() const { return ended_; }
  int32_t process() const { return connection_->peer_process(); }
  const std::string& version() const { return version_; }
  /// Asks for what it has. The devices' facts are those of the successor. Errors: the running daemon's: EPERM, EBUSY,
  /// EINVAL. One that has ended cannot judge the facts, so this does.
  Result<message::Belongings> take_over(std::vector<message::DeviceFacts> devices);
  /// The successor can open nothing more that could fail. The running daemon stands still from now on.
  Result<void> ready();
  message::SuccessionLink& link() { return link_; }
  /// Waits for the end of the clients' estate.
  Result<message::StandingSince> bequeathed();
  /// The successor can serve. Once this returns without an error, the other daemon never does again.
  Result<void> imported();

 private:
  explicit Predecessor(std::unique_ptr<message::Connection> connection)
      : connection_(std::move(connection)), link_(*connection_) {}
  Result<void> greet();
  /// A daemon in another container cannot see this process, and refuses it without a packet socket.
  void prove_rights();
  /// Those of a daemon that has ended. Errors: EINVAL (other facts), EPROTO.
  Result<void> check_facts(const std::vector<message::DeviceFacts>& mine);
  /// Errors: the reply's. `body`: what follows its header.
  Result<std::vector<std::byte>> call(message::Op op, const auto& request, std::span<const int> fds = {});

  std::unique_ptr<message::Connection> connection_;
  message::SuccessionLink link_;
  bool ended_ = false;
  std::string version_;
  uint32_t sequence_ = message::kNoReply;
};

}  // namespace uroce::service
