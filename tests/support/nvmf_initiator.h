// A host of NVMe over Fabrics on verbs, for tests and measurements: queues that it connects, and commands that it sends
// and waits for, good and bad. Everything that goes wrong below NVMe is a std::runtime_error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <uroce/cm.h>
#include <uroce/verbs.h>

#include "nvmf/nvme.h"

namespace uroce::test {

namespace nvme = nvmf::nvme;

/// The target refused the RDMA connection.
struct Rejected : std::runtime_error {
  explicit Rejected(uint16_t code) : std::runtime_error("rejected with status " + std::to_string(code)), status(code) {}
  uint16_t status;  ///< nvme::CmStatus
};

/// Parts that all queues of a host share.
struct InitiatorHost {
  std::optional<ConnectionManager> own;  ///< the daemon's; unset where somebody else's is used
  ConnectionManager& connections;
  CmChannel channel;
  Context context;
  ProtectionDomain pd;
  std::function<void()> progress;  ///< called while waiting: runs a target on the same thread, or rests

  /// A host on a device of the daemon.
  InitiatorHost(const DaemonOptions& daemon, const std::string& device, std::function<void()> progress);
  /// A host on any device. `connections` outlives the host.
  InitiatorHost(ConnectionManager& connections, Context context, std::function<void()> progress);
  /// The next event. The last ones of connections that have ended are also kept in `gone`.
  std::optional<CmEvent> take();
  CmEvent next_event();
  std::map<uint32_t, CmEventType> gone{};  ///< how the connections of ids have ended
  std::optional<CmAddress> local{};        ///< where connections begin, on a machine with several devices
  std::optional<uint8_t> ack_timeout{};    ///< a code, which the target shall use, too
  bool rtu = true;                         ///< false: as if the network loses each
};

class InitiatorQueue {
 public:
  static constexpr std::size_t kDataBytes = 1 << 20;
  static constexpr std::size_t kCapsuleBytes = 64 + 8192;

  /// The RDMA connection alone: `entries` commands may be outstanding. Errors: Rejected.
  InitiatorQueue(InitiatorHost& host, const CmAddress& target, uint16_t queue_id, uint32_t entries);
  /// The same with any private data.
  InitiatorQueue(InitiatorHost& host, const CmAddress& target, std::span<const std::byte> private_data,
                 uint32_t entries);

  /// Connect of NVMe.
  nvme::Response connect(const std::string& subsystem, const std::string& host_nqn, uint16_t queue_id,
                         uint16_t controller_id = nvme::kDynamicController, uint32_t keep_alive_ms = 0);

  /// Memory for the data of keyed descriptors.
  std::span<std::byte> data() { return memory_; }
  /// The command with a keyed descriptor for [offset, offset + length) of data().
  nvme::Command keyed(nvme::Command command, std::size_t offset, uint32_t length) const;
  /// The same with any key and type.
  static nvme::Command described(nvme::Command command, uint64_t address, uint32_t length, uint32_t key, uint8_t type);
  /// The command with a descriptor for data in the capsule.
  static nvme::Command in_capsule(nvme::Command command, uint64_t offset, uint32_t length);

  /// Sends `command` as it is, but for its identifier, with `behind` it in the capsule. Returns the identifier.
  uint16_t submit(nvme::Command command, std::span<const std::byte> behind = {});
  /// Sends any bytes as a capsule.
  void send(std::span<const std::byte> capsule);
  /// The next response; nullopt once the connection has ended.
  std::optional<nvme::Response> next();
  /// A response that has come already.
  std::optional<nvme::Response> poll();
  /// submit() and next(), which must be its response.
  nvme::Response call(const nvme::Command& command, std::span<const std::byte> behind = {});
  /// The connection has ended: the target closed it, or this side.
  bool ended();
  /// The key that the last response invalidated.
  uint32_t invalidated() const { return invalidated_; }
  /// Capsules that the target's queue pair has acknowledged, as far as poll() has seen.
  uint32_t delivered() const { return delivered_; }
  ProtectionDomain& pd() { return host_.pd; }

 private:
  void establish(const CmAddress& target, std::span<const std::byte> private_data);
  void post_receive(uint32_t slot);
  std::optional<nvme::Response> take(const Completion& completion);

  InitiatorHost& host_;
  const uint32_t entries_;
  const uint32_t sends_;  ///< places of the send queue, each with memory for a capsule until its SEND has completed
  std::vector<std::byte> memory_ = std::vector<std::byte>(kDataBytes);
  std::vector<std::byte> capsules_, responses_;
  MemoryRegion data_region_, capsule_region_, response_region_;
  CompletionQueue cq_;
  QueuePair qp_;
  CmId id_;
  uint32_t sent_ = 0, delivered_ = 0;
  uint32_t invalidated_ = 0;
  bool ended_ = false;
};

/// Status of a response without DNR.
inline nvme::Status status_of(const nvme::Response& response) {
  return static_cast<nvme::Status>((response.status >> 1) & ~nvme::kDoNotRetry);
}

// Commands.
nvme::Command property_get(uint32_t offset, bool wide);
nvme::Command property_set(uint32_t offset, uint64_t value);
nvme::Command admin_command(uint8_t opcode, uint32_t nsid = 0, uint32_t cdw10 = 0, uint32_t cdw11 = 0);
nvme::Command log_command(uint8_t page, uint32_t bytes, uint64_t offset = 0);
/// Read, Write, Write Zeroes of `blocks` from `first`; Flush.
nvme::Command io_command(uint8_t opcode, uint32_t nsid, uint64_t first = 0, uint32_t blocks = 1);

/// Connect, enable, and wait until ready. Returns the controller's identifier.
uint16_t make_controller(InitiatorQueue& admin, const std::string& subsystem, const std::string& host_nqn,
                         uint32_t keep_alive_ms = 0);

}  // namespace uroce::test
