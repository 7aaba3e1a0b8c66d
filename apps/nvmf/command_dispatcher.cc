#include "nvmf/command_dispatcher.h"

#include <cstring>
#include <utility>

#include "nvmf/sizes.h"

namespace uroce::nvmf {

using nvme::Status;

namespace {

/// Errors that another try may not meet.
bool passes(Status status) {
  using enum Status;
  return status == internal_error || status == aborted || status == data_transfer_error ||
         status == connect_controller_busy || status == write_fault || status == read_error;
}

uint16_t status_field(Status status) {
  const auto code = static_cast<uint16_t>(status);
  const bool again = status == Status::success || passes(status);
  return static_cast<uint16_t>((again ? code : code | nvme::kDoNotRetry) << 1);
}

}  // namespace

std::expected<uint32_t, Status> CommandDispatcher::measure(const nvme::Command& command, IoPlan& plan) const {
  if (command.opcode == nvme::kFabrics) {
    return command.fabrics_type() == nvme::kConnect ? uint32_t{sizeof(nvme::ConnectData)} : 0u;
  }
  // Only fabrics commands are for a controller that is not enabled.
  if (!connected()) return std::unexpected(Status::command_sequence_error);
  const bool ready = queue_id_ == 0 ? controller_->ready() : controller_->ready(joined_at_);
  if (!ready) return std::unexpected(Status::command_sequence_error);
  if (queue_id_ == 0) {
    const uint64_t bytes = Controller::admin_data_bytes(command);
    if (bytes > kTransferBytes) return std::unexpected(Status::invalid_field);
    return static_cast<uint32_t>(bytes);
  }
  const auto made = plan_io(command, controller_->subsystem());
  if (!made) return std::unexpected(made.error());
  plan = *made;
  return made->data_bytes;
}

Reply CommandDispatcher::fabrics(const nvme::Command& command, std::span<const std::byte> data, Nanos now) {
  if (command.fabrics_type() == nvme::kConnect) return connect(command, data, now);
  if (!connected()) return {.status = Status::command_sequence_error};
  if (queue_id_ != 0) return {.status = Status::invalid_opcode};
  // ATTRIB, OFST and VALUE are at bytes 40, 44 and 48.
  const auto attributes = static_cast<uint8_t>(command.cdw10);
  switch (command.fabrics_type()) {
    case nvme::kPropertyGet: return controller_->property_get(attributes, command.cdw11);
    case nvme::kPropertySet:
      return controller_->property_set(attributes, command.cdw11, uint64_t{command.cdw13} << 32 | command.cdw12);
    default: return {.status = Status::invalid_opcode};
  }
}

Reply CommandDispatcher::connect(const nvme::Command& command, std::span<const std::byte> bytes, Nanos now) {
  if (connected()) return {.status = Status::command_sequence_error};
  nvme::ConnectData data;
  std::memcpy(&data, bytes.data(), sizeof data);
  auto made = target_.connect(command, data, queue_id_, entries_, address_, now);
  if (!made) return made.error();
  controller_ = std::move(made->controller);
  joined_at_ = made->at;
  listed_ = made->listed;
  sq_entries_ = (command.cdw11 & 0xffff) + 1;
  sq_flow_control_ = (command.cdw11 >> 16 & nvme::kDisableSqFlow) == 0;
  return {.result = controller_->id()};
}

Reply CommandDispatcher::admin(const nvme::Command& command, std::span<std::byte> data) {
  return controller_->admin(command, data, controller_->subsystem().discovery ? &log_ : nullptr);
}

nvme::Response CommandDispatcher::respond(const nvme::Command& command, const Reply& reply) {
  sq_head_ = (sq_head_ + 1) % sq_entries_;
  nvme::Response response{};
  response.result = reply.result;
  response.sq_head = sq_flow_control_ ? static_cast<uint16_t>(sq_head_) : uint16_t{0xffff};
  response.command_id = command.command_id;
  response.status = status_field(reply.status);
  return response;
}

bool CommandDispatcher::over(Nanos now) {
  if (!connected()) return now > connect_limit_;
  if (controller_->ended()) return true;
  if (queue_id_ != 0) return controller_->resets() != joined_at_;
  return controller_->expired(now);
}

void CommandDispatcher::leave() {
  if (!connected()) return;
  if (queue_id_ == 0) {
    target_.remove(*controller_, address_);
  } else {
    target_.leave(*controller_, queue_id_, joined_at_, address_);
  }
}

}  // namespace uroce::nvmf
