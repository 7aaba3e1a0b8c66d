// The connection manager's events, and the reactors that get the queues.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <uroce/cm.h>

#include "nvmf/admission.h"
#include "nvmf/handover.h"
#include "nvmf/network.h"
#include "nvmf/target.h"

namespace uroce::nvmf {

struct ListenSettings {
  std::vector<std::string> addresses{};  ///< IPv4 or IPv6; empty: every address of every device
  uint16_t port = 4420;                  ///< assigned to NVMe over Fabrics
  uint32_t max_queues = 1024;
  /// The addresses, without those that stand for every address. Errors: EINVAL (one that is none).
  Result<std::vector<Portal>> portals() const;
  Bounds bounds() const { return {.max_queues = max_queues}; }
};

/// One thread: that of the first reactor, which has the admin queues. The one with the fewest gets an I/O queue.
class Connections {
 public:
  /// `orders`: of the reactors, which report to `reports`. Errors: those of CmId::bind() and listen(); EINVAL (an
  /// address).
  static Result<std::unique_ptr<Connections>> listen(Network& network, std::vector<Orders*> orders, Reports& reports,
                                                     const ListenSettings& settings);

  /// Handles reports, and now and then events. True when there was work. Never waits.
  bool poll(Nanos now);
  /// After a pass without work, before a rest: handles an event that woke this thread. True when there was one.
  bool look_again() { return network_.wakes() && take_events(); }
  /// Closes all queues, and refuses new ones. poll() still brings the ends of what backends do for them.
  void close();
  /// Queues that are open, or begin, or that a backend still works for.
  std::size_t queues() const { return connections_.size(); }
  /// I/O queues of each reactor.
  const std::vector<uint32_t>& loads() const { return loads_; }
  /// True once the daemon has gone: nothing will ever come again.
  bool lost() const { return lost_; }

 private:
  struct Connection {
    CmId id;
    uint32_t reactor = 0;
    bool io = false;
    bool closing = false;  ///< Close has been sent
    uint16_t entries = 0;
    uint8_t reads = 0;  ///< that the target may have outstanding
  };

  Connections(Network& network, std::vector<Orders*> orders, Reports& reports, const ListenSettings& settings,
              CmChannel channel, std::vector<CmId> listeners)
      : network_(network),
        orders_(std::move(orders)),
        reports_(reports),
        settings_(settings),
        channel_(std::move(channel)),
        listeners_(std::move(listeners)),
        loads_(orders_.size()),
        admission_(settings.bounds()) {}

  bool take_events();
  void handle(const CmEvent& event);
  void on_request(const CmEvent& event);
  Result<void> hand_over(CmId& id, const CmEvent& event, const nvme::CmRequest& request);
  void on_report(const Report& report);
  Result<void> accept(Connection& connection, uint32_t qpn);
  void close(Connection& connection);
  /// For a queue that needs the place.
  void evict(uint32_t number);
  void put(uint32_t reactor, Order order);

  Network& network_;
  const std::vector<Orders*> orders_;  // by reactor
  Reports& reports_;
  const ListenSettings settings_;
  CmChannel channel_;
  std::vector<CmId> listeners_;
  std::vector<uint32_t> loads_;
  std::map<uint32_t, Connection> connections_{};  // by the id's number
  Admission admission_;
  Nanos next_events_{};
  bool lost_ = false;
  bool closing_ = false;
};

}  // namespace uroce::nvmf
