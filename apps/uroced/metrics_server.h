// Serves the page of metrics by HTTP, for Prometheus and its like.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <sys/socket.h>

#include <uroce/error.h>

#include "message/belongings.h"
#include "metrics/page.h"
#include "uroced/connection_bounds.h"

struct MHD_Daemon;

namespace uroce::daemon {

/// Where to listen, as metrics.listen has it.
struct ListenAddress {
  sockaddr_storage address{};
  socklen_t bytes = 0;
};

/// "127.0.0.1:9464" or "[::1]:9464"; the port is 1 to 65535. Errors: EINVAL, with what it must be.
Result<ListenAddress> parse_listen_address(std::string_view text);

/// A thread of its own answers GET /metrics, for a few connections at a time, each of which lasts for a few seconds. A
/// host has a part of them.
class MetricsServer {
 public:
  /// The page's contents; nothing while the daemon is starting. Called by the server's thread.
  using Read = std::function<std::optional<metrics::State>()>;

  /// `inherited`: a socket that listens there already. Errors: EINVAL, and those of bind(2) and listen(2), naming the
  /// setting.
  static Result<std::unique_ptr<MetricsServer>> start(const std::string& listen, Read read, message::Fd inherited = {});
  /// The socket of the daemon before, if it listened at the same address.
  static message::Fd inherit(message::Belongings& belongings, const std::string& listen);
  /// Any thread.
  void lend(message::Belongings& belongings) const { belongings.lend(kName, listener_); }
  /// Ends the connections.
  ~MetricsServer();
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;

  const Read& read() const { return read_; }
  ConnectionBounds& bounds() { return bounds_; }

 private:
  explicit MetricsServer(Read read);

  static constexpr const char* kName = "metrics";

  const Read read_;
  ConnectionBounds bounds_;
  int listener_ = -1;  ///< the library's
  MHD_Daemon* daemon_ = nullptr;
};

}  // namespace uroce::daemon
