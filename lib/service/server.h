// The daemon's socket: accepts clients, serves each on a thread of its own, and cleans up after it.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <uroce/error.h>

#include "cm/manager.h"
#include "control/device.h"
#include "message/operator_messages.h"
#include "message/socket_lock.h"
#include "service/capture.h"
#include "service/estate.h"
#include "service/server_view.h"
#include "service/user.h"

namespace uroce::service {

struct ServerConfig {
  std::string socket =
      "/run/uroce/uroced.sock";  ///< its folder is made when missing; a dead daemon's socket is replaced
  std::shared_ptr<message::SocketOwner> owner{};  ///< of the socket; the server takes it itself when there is none
  mode_t mode = 0666;                             ///< of the socket; decides which users may connect
  std::optional<gid_t> group{};                   ///< of the socket; unset keeps the process's
  uint32_t max_clients = 1024;                    ///< connections; a client has one per opened device
  BudgetSettings budgets{};
  /// Called once the socket listens and before a client is served. Its error ends the start.
  std::function<Result<void>()> before_serving{};
};

/// One connection, for the operator.
using ClientInfo = message::ClientRow;

/// Any thread; one line without a newline.
using Log = std::function<void(Severity, std::string_view)>;

class Server {
 public:
  /// Listens and serves. `devices` and `connections`, which may be nullptr, live until this goes. Errors: EADDRINUSE (a
  /// live daemon has the socket), EACCES, and others of bind(2), each naming the path and the way out.
  static Result<std::unique_ptr<Server>> start(ServerConfig config,
                                               std::vector<std::shared_ptr<control::Device>> devices, Log log,
                                               cm::Manager* connections = nullptr, PortAccess ports = {});
  /// As stop().
  ~Server();
  /// Ends every connection, frees the clients' objects, and removes the socket. Bounded by the engines' timeout.
  void stop();
  // --- Another daemon takes over ---
  /// Holds all clients between two requests, and all engines: what the clients have stays as it is. Errors: ETIMEDOUT
  /// (a client's request or an engine takes longer), with nothing held.
  Result<void> hold(std::chrono::milliseconds patience);
  /// The objects of the clients, while they are held. Clients that no other daemon can serve are left out, with a log
  /// line.
  Result<Estate> estate() const;
  /// Ends hold().
  void go_on();
  /// Ends hold() and serving: the other daemon has the clients of the estate, their connections and the socket. The
  /// others are disconnected. In place of stop().
  void leave();
  /// Makes the objects that the clients of another daemon had. The engines of all devices are held until go_on(), which
  /// also begins to serve the clients. Those of whom the rows make no sense are disconnected, with a log line. Errors:
  /// ETIMEDOUT, and EPROTO where the whole makes no sense.
  struct Inherited {
    std::size_t clients = 0, refused = 0, queue_pairs = 0;
  };
  Result<Inherited> inherit(Estate estate);
  /// In place of go_on() after inherit(): the other daemon keeps its clients.
  void give_up();

  /// From now on; nobody loses what it has.
  void set_budgets(BudgetSettings budgets);
  void set_max_clients(uint32_t max);
  std::vector<ClientInfo> clients() const;
  std::vector<message::UserRow> users() const;
  /// All counters of one of the devices, by name.
  std::vector<std::pair<std::string, uint64_t>> counters(const control::Device& device) const;
  /// Disconnects one client as if it had died. False when there is none.
  bool disconnect(uint32_t id);

 private:
  struct Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace uroce::service
