// The NVMe half of a queue: the controller that Connect gives it, what a command needs, and who answers it. It knows no
// transport.
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <memory>
#include <optional>
#include <span>

#include "base/time.h"
#include "nvmf/controller.h"
#include "nvmf/io_command.h"
#include "nvmf/nvme.h"
#include "nvmf/target.h"

namespace uroce::nvmf {

/// Belongs to one queue. I/O commands and Abort are the queue's own business.
class CommandDispatcher {
 public:
  /// `entries` is the size of the receive queue, `address` the host's. The host must connect by `connect_limit`.
  CommandDispatcher(Target& target, uint16_t queue_id, uint32_t entries, const Portal& portal, std::string address,
                    Nanos connect_limit)
      : target_(target),
        queue_id_(queue_id),
        entries_(entries),
        address_(std::move(address)),
        connect_limit_(connect_limit),
        log_(target, portal) {}

  /// The host has sent Connect.
  bool connected() const { return controller_ != nullptr; }
  /// And a `hosts` list names it.
  bool listed() const { return listed_; }
  /// The host has sent a command.
  void heard(Nanos now) {
    if (connected()) controller_->heard(now);
  }

  /// Bytes that the command moves, or why it cannot run. Sets the plan of an I/O command.
  std::expected<uint32_t, nvme::Status> measure(const nvme::Command& command, IoPlan& plan) const;
  /// Carries out a Fabrics command. `data` is of measure()'s bytes.
  Reply fabrics(const nvme::Command& command, std::span<const std::byte> data, Nanos now);
  /// Carries out an admin command other than Abort, once measure() has let it pass.
  Reply admin(const nvme::Command& command, std::span<std::byte> data);

  /// The admin queue: a held Asynchronous Event Request has been answered.
  void event_answered() { controller_->event_answered(); }
  /// CDW0 of an event that is due, by a request that is held (Controller::take_event()).
  std::optional<uint32_t> take_event() {
    return queue_id_ == 0 && connected() ? controller_->take_event() : std::nullopt;
  }
  /// The admin queue: a reset has forgotten the event requests that are still held, if there are some.
  bool forgot_events() const { return queue_id_ == 0 && connected() && controller_->events_held() == 0; }

  /// The response to the command, with the next head of the submission queue.
  nvme::Response respond(const nvme::Command& command, const Reply& reply);

  /// The queue must end: its controller has, the host has been silent for too long, or it never sent Connect.
  bool over(Nanos now);
  /// How long the controller's host has been silent. An I/O queue leaves that to the admin queue, and returns 0.
  Nanos silence(Nanos now) const { return queue_id_ == 0 && connected() ? controller_->silence(now) : Nanos{}; }
  /// The queue has ended: leaves the controller, and ends it if this is the admin queue.
  void leave();

 private:
  Reply connect(const nvme::Command& command, std::span<const std::byte> bytes, Nanos now);

  Target& target_;
  const uint16_t queue_id_;
  const uint32_t entries_;
  const std::string address_;
  const Nanos connect_limit_;
  const PortalLog log_;
  std::shared_ptr<Controller> controller_{};
  uint32_t joined_at_ = 0;  ///< Controller::resets() when it did
  uint32_t sq_entries_ = 1, sq_head_ = 0;
  bool sq_flow_control_ = true;
  bool listed_ = false;
};

}  // namespace uroce::nvmf
