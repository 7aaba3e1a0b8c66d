// rdma_cm's view of connections (rdma_cm(7)): ids with IP addresses and ports on all devices of a process, above one
// IB connection manager and QP1 per device. A thread of its own takes what arrives and keeps the time.
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

#include "control/device.h"
#include "message/cm_options.h"

namespace uroce::cm {

struct UserLimits {
  uint32_t max_ids = 65536;       ///< ids of one user
  uint32_t max_channels = 1024;   ///< event channels of one user
  bool privileged_ports = false;  ///< may bind below 1024
};

/// An event, with what programs go on to ask of its id when they hear of it.
struct EventReport {
  CmEvent event;
  std::optional<CmIdInfo> info{};  ///< where the event changes it
  /// What qp_attr() gives for the states that the id's queue pair can be brought to now.
  std::vector<std::pair<QpAttr, QpAttrMask>> steps{};
};

/// One program's ids and event channels. All calls from any thread; none waits for the network. What the calls mean and
/// fail with, include/uroce/cm.h says; here objects go by number, and a number that is not the user's is EINVAL.
class ManagerUser {
 public:
  virtual ~ManagerUser() = default;  ///< gives up everything

  /// A number and the descriptor to poll, which holds one byte per event and stays the manager's.
  virtual Result<std::pair<uint32_t, int>> create_channel() = 0;
  /// With it go the events that wait; its ids stay, without a voice.
  virtual Result<void> destroy_channel(uint32_t channel) = 0;
  /// Events of the channel that nobody took, oldest first, at most `most`. Their bytes are the caller's to read, one
  /// for each that is handed to the application.
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
  virtual Result<void> notify_established(uint32_t id) = 0;
  virtual Result<std::pair<QpAttr, QpAttrMask>> qp_attr(uint32_t id, QpState state) = 0;
  using Option = message::CmOption;
  virtual Result<void> set_option(uint32_t id, Option option, uint8_t value) = 0;
  virtual Result<void> join(uint32_t id, const CmAddress& group, uint64_t token) = 0;
  virtual Result<void> leave(uint32_t id, const CmAddress& group) = 0;
  /// `taken`: events of the id that were taken, but not handed on; their bytes go to the new channel's pipe.
  virtual Result<void> migrate(uint32_t id, uint32_t channel, uint32_t taken) = 0;
  /// Ids, for operators' tables.
  virtual std::size_t ids() const = 0;
};

class Manager {
 public:
  /// Takes the QP1 of each device. `seed`: for port numbers, PSNs and ids. Errors: EBUSY (another has a QP1), ENOMEM,
  /// EMFILE, ETIMEDOUT.
  static Result<std::unique_ptr<Manager>> start(const std::vector<std::shared_ptr<control::Device>>& devices,
                                                uint64_t seed);
  /// After all users are gone.
  ~Manager();
  Manager(const Manager&) = delete;
  Manager& operator=(const Manager&) = delete;

  std::unique_ptr<ManagerUser> open(const UserLimits& limits);
  /// By name, of one device: messages by kind, and what was dropped and why. Any thread.
  std::vector<std::pair<std::string, uint64_t>> counters(const std::string& device) const;

  struct Impl;

 private:
  explicit Manager(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace uroce::cm
