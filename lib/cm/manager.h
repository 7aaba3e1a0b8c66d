// rdma_cm(7) for all devices of a process: ids with IP addresses and ports. It uses one IB connection manager and one
// QP1 per device. A thread of its own receives MADs and runs the timers.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <uroce/cm.h>
#include <uroce/error.h>
#include <uroce/types.h>

#include "base/guess_table.h"
#include "base/secret.h"
#include "control/device.h"
#include "message/cm_options.h"

namespace uroce::cm {

/// Bounds the ids of several programs together. The manager calls it under its lock, from any thread.
class IdBudget {
 public:
  virtual ~IdBudget() = default;
  /// Before an id is made. Errors: those of the call that makes it; a peer's request is refused.
  virtual Result<void> take() = 0;
  virtual void give_back() = 0;
};

struct UserLimits {
  std::shared_ptr<IdBudget> budget{};  ///< of ids; nullptr: unlimited
  bool privileged_ports = false;       ///< may bind ports below 1024
};

/// An event, with the answers to the queries that programs usually make about its id next.
struct EventReport {
  CmEvent event;
  std::optional<CmIdInfo> info{};  ///< if the event changes it
  /// The results of qp_attr() for the states that the id's queue pair can be moved to now.
  std::vector<std::pair<QpAttr, QpAttrMask>> steps{};
};

/// One program's ids and event channels. Any thread may make any call. No call waits for the network.
/// include/uroce/cm.h describes the calls and their errors. Here objects are numbers; the number of another user's
/// object is EINVAL.
class ManagerUser {
 public:
  virtual ~ManagerUser() = default;  ///< destroys all ids and channels

  /// Returns a number, and a descriptor to poll. The descriptor holds one byte per event, and the manager owns it.
  virtual Result<std::pair<uint32_t, int>> create_channel() = 0;
  /// Drops the events that wait. The channel's ids stay, but get no more events.
  virtual Result<void> destroy_channel(uint32_t channel) = 0;
  /// Removes at most `most` events from the channel and returns them, oldest first. The caller must read one byte from
  /// the descriptor for each event that it passes to the application.
  virtual Result<std::vector<EventReport>> take_events(uint32_t channel, std::size_t most) = 0;

  virtual Result<uint32_t> create_id(uint32_t channel, PortSpace space, QpType type) = 0;
  virtual Result<void> destroy_id(uint32_t id) = 0;
  virtual Result<CmIdInfo> info(uint32_t id) = 0;
  virtual Result<void> bind(uint32_t id, const CmAddress& local) = 0;
  virtual Result<void> resolve_addr(uint32_t id, const std::optional<CmAddress>& local, const CmAddress& remote,
                                    std::chrono::milliseconds timeout) = 0;
  virtual Result<void> resolve_route(uint32_t id) = 0;
  virtual Result<void> listen(uint32_t id, int backlog) = 0;
  virtual Result<void> connect(uint32_t id, const CmParam& param) = 0;
  virtual Result<void> establish(uint32_t id) = 0;
  virtual Result<void> accept(uint32_t id, const CmParam& param) = 0;
  virtual Result<void> reject(uint32_t id, std::span<const std::byte> private_data, uint8_t reason) = 0;
  virtual Result<void> disconnect(uint32_t id) = 0;
  /// A call for the id failed that its program does not wait for: raises connect_error with the errno value `code`,
  /// unless the program hears of the connection's end anyway, or does not read its events. No effect without the id.
  virtual void report_failure(uint32_t id, int code) = 0;
  virtual Result<void> notify_established(uint32_t id) = 0;
  virtual Result<std::pair<QpAttr, QpAttrMask>> qp_attr(uint32_t id, QpState state) = 0;
  using Option = message::CmOption;
  virtual Result<void> set_option(uint32_t id, Option option, uint8_t value) = 0;
  virtual Result<void> join(uint32_t id, const CmAddress& group, uint64_t token) = 0;
  virtual Result<void> leave(uint32_t id, const CmAddress& group) = 0;
  /// `taken`: the number of the id's events that were taken, but not passed to the application. Their bytes move to the
  /// new channel's pipe.
  virtual Result<void> migrate(uint32_t id, uint32_t channel, uint32_t taken) = 0;
};

class Manager {
 public:
  /// Opens the QP1 of each device. `seed`: for port numbers, PSNs and ids. Errors: EBUSY (a QP1 is open already),
  /// ENOMEM, EMFILE, ETIMEDOUT.
  static Result<std::unique_ptr<Manager>> start(const std::vector<std::shared_ptr<control::Device>>& devices,
                                                const Secret& seed);
  /// Destroy all users before.
  ~Manager();
  Manager(const Manager&) = delete;
  Manager& operator=(const Manager&) = delete;

  std::unique_ptr<ManagerUser> open(const UserLimits& limits);
  /// One device's counters by name: messages by kind, and drops by reason. Any thread.
  std::vector<std::pair<std::string, uint64_t>> counters(const std::string& device) const;
  /// The peers that sent the device messages for connections that do not exist, in the order of addresses. Any thread.
  std::vector<PeerGuesses> guesses(const std::string& device) const;
  /// How many such messages there were. Any thread; cheap.
  uint64_t guess_count(const std::string& device) const;

  struct Impl;
  class Guard;

 private:
  explicit Manager(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace uroce::cm
