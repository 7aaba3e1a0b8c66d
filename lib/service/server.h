// The daemon's socket: accepts clients, serves each on a thread of its own, and cleans up after it.
#pragma once

#include <sys/types.h>

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
#include "message/belongings.h"
#include "message/operator_messages.h"
#include "message/socket_lock.h"
#include "message/succession_link.h"
#include "service/capture.h"
#include "service/server_view.h"
#include "service/succession.h"
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
  std::shared_ptr<SuccessionHost> succession{};      ///< answers a successor; without one there is none
  std::shared_ptr<message::Belongings> inherited{};  ///< of the daemon before; the server then waits for begin()
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

  /// From now on; nobody loses what it has.
  void set_budgets(BudgetSettings budgets);
  void set_max_clients(uint32_t max);
  std::vector<ClientInfo> clients() const;
  std::vector<message::UserRow> users() const;
  /// All counters of one of the devices, by name.
  std::vector<std::pair<std::string, uint64_t>> counters(const control::Device& device) const;
  /// Disconnects one client as if it had died. False when there is none.
  bool disconnect(uint32_t id);

  // --- A planned restart: the running daemon ----------------------------------------------------------------------

  /// The listening socket, for the successor.
  int listener() const;
  /// Connections wait in the socket's backlog from now on, programs' requests in their sockets, and engines stand
  /// still. Errors: ETIMEDOUT (a request or an engine takes longer), EPROTONOSUPPORT (a client has what an estate of
  /// these versions does not), with nothing held.
  Result<void> hold(const EstateVersions& versions = {});
  /// Ends that.
  void go_on();
  /// After hold(), once, in its versions. Passes what the clients have; the link carries Step::estate alone meanwhile.
  /// Clients that no other daemon can serve are left out, with a log line. After an error everything is as it was.
  Result<Bequest> bequeath(message::SuccessionLink& successor);

  // --- After a crash: a process that shares this one's memory ------------------------------------------------------

  /// Before the other process starts: from now on the engines mark their steps, so that outlive_threads() can tell
  /// which queue pair each was changing. Errors: ETIMEDOUT naming the engine.
  Result<void> mark_steps();
  /// In place of hold(): all threads but the calling one have died, at any instruction, and never come back. bequeath()
  /// may follow, and nothing else. It leaves out clients whose request was being served. Returns how many queue pairs
  /// end because an engine died in the middle of a step of theirs.
  std::size_t outlive_threads();

  // --- A planned restart: the successor, whose server does not serve before begin() --------------------------------

  /// Takes what bequeath() passes. Engines stand still until begin(). Clients of whom it makes no sense end with
  /// begin(), with a log line.
  Result<Bequest> inherit(message::SuccessionLink& predecessor);
  /// The socket and the clients are this process's from now on, and it serves.
  void begin();

 private:
  struct Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace uroce::service
