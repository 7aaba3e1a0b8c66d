// Connects an endpoint's QPs by rdma_cm (-R): the client's each with the server's of the same index.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <uroce/cm.h>
#include <uroce/verbs/queue_pair.h>

namespace uroce::perf {

/// Nothing here waits: events come by step(). One thread.
class CmConnector {
 public:
  /// Changes the attributes of a connection's QP before it moves to their state.
  using Adjust = std::function<void(QpAttr&)>;

  /// Listens on a free port of `local`, for a server. Errors: those of the connection manager's calls.
  static Result<std::unique_ptr<CmConnector>> listen(ConnectionManager manager, const Gid& local);
  /// A client calls this. Errors: those of the connection manager's calls.
  static Result<std::unique_ptr<CmConnector>> make(ConnectionManager manager);
  CmConnector(const CmConnector&) = delete;
  CmConnector& operator=(const CmConnector&) = delete;

  /// The server's port; 0 on a client.
  uint16_t port() const { return port_; }
  /// From now on step() connects `qps`, which outlive this. A client connects them from `local` to `server`; a server
  /// ignores both. `terms` are those of each connection, without a QP. Errors: those of the connection manager's calls.
  Result<void> begin(std::span<QueuePair> qps, const Gid& local, const CmAddress& server, const CmParam& terms,
                     Adjust adjust);
  /// Handles the events that have come. True once all QPs are connected. Errors: ECONNREFUSED, EHOSTUNREACH,
  /// ECONNRESET (the peer ended a connection), EPROTO (the peer's data), and those of the calls.
  Result<bool> step();

 private:
  CmConnector(ConnectionManager manager, CmChannel channel)
      : manager_(std::move(manager)), channel_(std::move(channel)) {}
  Result<void> handle(const CmEvent& event);
  Result<void> connect(const CmEvent& event);
  Result<void> accept(const CmEvent& event);
  Result<void> bring_up(const CmId& id, QueuePair& qp);

  struct Connection {
    CmId id;
    uint32_t index;
    bool established = false;
  };

  ConnectionManager manager_;
  CmChannel channel_;
  std::optional<CmId> listener_;
  uint16_t port_ = 0;
  std::span<QueuePair> qps_;
  CmParam terms_;
  Adjust adjust_;
  std::map<uint32_t, Connection> connections_;  // by the id's number
  std::vector<bool> taken_;                     // the server's QPs that have a connection
  std::size_t established_ = 0;
};

}  // namespace uroce::perf
