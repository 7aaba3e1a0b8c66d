// The connection manager's events, and the queues that they make and end.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <uroce/cm.h>

#include "nvmf/network.h"
#include "nvmf/queue.h"

namespace uroce::nvmf {

struct ListenSettings {
  std::string address{};  ///< IPv4 or IPv6; empty: every address of every device
  uint16_t port = 4420;   ///< assigned to NVMe over Fabrics
  uint32_t max_queues = 1024;
};

/// One thread.
class Connections {
 public:
  /// Errors: those of CmId::bind() and listen(); EINVAL (the address).
  static Result<std::unique_ptr<Connections>> listen(Network& network, const Shared& shared,
                                                     const ListenSettings& settings);
  ~Connections();

  /// Handles completions of all queues, and now and then events and timers. True when there was work.
  bool poll(Nanos now);
  /// Closes all queues, and refuses new ones. poll() still brings the ends of what backends do for them.
  void close();
  /// Queues that are open, or that a backend still works for.
  std::size_t queues() const { return connections_.size(); }
  /// True once the daemon has gone: nothing will ever come again.
  bool lost() const { return lost_; }

 private:
  struct Connection {
    CmId id;
    std::unique_ptr<Queue> queue;  ///< destroyed first
  };

  Connections(Network& network, const Shared& shared, const ListenSettings& settings, CmChannel channel, CmId listener)
      : network_(network),
        shared_(shared),
        settings_(settings),
        channel_(std::move(channel)),
        listener_(std::move(listener)) {}

  void handle(const CmEvent& event, Nanos now);
  void on_request(const CmEvent& event, Nanos now);
  Result<void> accept(CmId& id, const CmEvent& event, const nvme::CmRequest& request, Nanos now);
  Result<Device*> device(const std::string& name);
  void check(Nanos now);

  Network& network_;
  const Shared shared_;
  const ListenSettings settings_;
  CmChannel channel_;
  CmId listener_;
  std::map<std::string, std::unique_ptr<Device>> devices_{};
  std::vector<Connection> connections_{};
  Nanos next_events_{}, next_check_{};
  bool lost_ = false;
  bool closing_ = false;
};

}  // namespace uroce::nvmf
