// The connection manager's calls for one program. The manager answers them where it runs; the daemon's clients send
// them there.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <uroce/cm_types.h>
#include <uroce/error.h>

#include "message/cm_messages.h"
#include "message/cm_options.h"

namespace uroce::message {

/// Any thread may make any call. No call waits for the network. include/uroce/cm.h describes the calls and their
/// errors. Here objects are numbers; the number of another program's object is EINVAL.
class CmCalls {
 public:
  virtual ~CmCalls() = default;

  /// Drops the events that wait. The channel's ids stay, but get no more events.
  virtual Result<void> destroy_channel(uint32_t channel) = 0;
  /// Removes at most `most` events from the channel and returns them, oldest first. The caller must read one byte from
  /// the channel's descriptor for each event that it passes to the application.
  virtual Result<std::vector<CmEventRecord>> take_events(uint32_t channel, std::size_t most) = 0;

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
  virtual Result<void> set_option(uint32_t id, CmOption option, uint8_t value) = 0;
  virtual Result<void> join(uint32_t id, const CmAddress& group, uint64_t token) = 0;
  virtual Result<void> leave(uint32_t id, const CmAddress& group) = 0;
  virtual Result<void> raise_event(uint32_t id, CmEventType type, int status, uint64_t argument) = 0;
  /// `taken`: the number of the id's events that were taken, but not passed to the application. Their bytes move to the
  /// new channel's pipe.
  virtual Result<void> migrate(uint32_t id, uint32_t channel, uint32_t taken) = 0;
};

}  // namespace uroce::message
