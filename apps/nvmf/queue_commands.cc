// The NVMe half of a queue: what a command needs, and who carries it out.
#include <cstring>

#include "nvmf/queue.h"

namespace uroce::nvmf {

using nvme::Status;

namespace {

Reply failed(Status status) { return {.status = status}; }

Status status_of(Io::Op op, int error) {
  if (error == 0) return Status::success;
  if (error == ENOSPC) return Status::capacity_exceeded;
  return op == Io::Op::read ? Status::read_error : Status::write_fault;
}

}  // namespace

void Queue::start(Request& request, uint32_t bytes) {
  const auto command = command_of({memory_.entry(request.slot), std::min<std::size_t>(bytes, sizeof(nvme::Command))});
  // Without a command identifier there is no response (RDMA binding, 7.3.6: the connection is ended).
  if (!command) return close();
  request.command = *command;
  request.transfer = {};
  request.data_bytes = 0;
  request.data = nullptr;
  if (controller_ != nullptr) controller_->heard(now_);
  const auto transfer = transfer_of(request.command, bytes - sizeof(nvme::Command));
  if (!transfer) return finish(request, failed(transfer.error()));
  request.transfer = *transfer;
  const auto needed = measure(request);
  if (!needed) return finish(request, failed(needed.error()));
  if (*needed == 0) return run(request);
  // Linux describes room for 256 ranges whatever their number. The rest is not fetched.
  const bool may_be_longer = terms_.queue_id != 0 && request.command.opcode == nvme::kDatasetManagement;
  const uint32_t length = request.transfer.length;
  if (request.transfer.kind == Transfer::Kind::none || length < *needed || (length > *needed && !may_be_longer)) {
    return finish(request, failed(Status::sgl_length_invalid));
  }
  request.data_bytes = *needed;
  if (request.transfer.kind == Transfer::Kind::in_capsule) {
    request.data = memory_.data(request.slot) + request.transfer.address;
    // Backends without a cache want data on a page. Identify promises any offset, which hosts hardly use.
    if (request.transfer.address % nvme::kPageBytes == 0) return run(request);
  }
  if (std::byte* const buffer = shared_.pool.take(share_)) return fetched_buffer(request, buffer);
  request.stage = Request::Stage::waiting;
  shared_.pool.wait(share_, request);
}

std::expected<uint32_t, Status> Queue::measure(Request& request) {
  const nvme::Command& command = request.command;
  if (command.opcode == nvme::kFabrics) {
    return command.fabrics_type() == nvme::kConnect ? uint32_t{sizeof(nvme::ConnectData)} : 0u;
  }
  // Only fabrics commands are for a controller that is not enabled.
  if (controller_ == nullptr) return std::unexpected(Status::command_sequence_error);
  const bool ready = terms_.queue_id == 0 ? controller_->ready() : controller_->ready(joined_at_);
  if (!ready) return std::unexpected(Status::command_sequence_error);
  if (terms_.queue_id == 0) {
    const uint64_t bytes = Controller::admin_data_bytes(command);
    if (bytes > kTransferBytes) return std::unexpected(Status::invalid_field);
    return static_cast<uint32_t>(bytes);
  }
  const auto plan = plan_io(command, controller_->subsystem());
  if (!plan) return std::unexpected(plan.error());
  request.plan = *plan;
  return plan->data_bytes;
}

void Queue::run(Request& request) {
  if (request.command.opcode == nvme::kFabrics) return run_fabrics(request);
  return terms_.queue_id == 0 ? run_admin(request) : run_io(request);
}

void Queue::run_fabrics(Request& request) {
  const nvme::Command& command = request.command;
  if (command.fabrics_type() == nvme::kConnect) return run_connect(request);
  if (controller_ == nullptr) return finish(request, failed(Status::command_sequence_error));
  if (terms_.queue_id != 0) return finish(request, failed(Status::invalid_opcode));
  // ATTRIB, OFST and VALUE are at bytes 40, 44 and 48.
  const auto attributes = static_cast<uint8_t>(command.cdw10);
  switch (command.fabrics_type()) {
    case nvme::kPropertyGet: return finish(request, controller_->property_get(attributes, command.cdw11));
    case nvme::kPropertySet: {
      const auto reply =
          controller_->property_set(attributes, command.cdw11, uint64_t{command.cdw13} << 32 | command.cdw12);
      if (controller_->events_held() == 0) end_held();
      if (!closed_) finish(request, reply);
      return;
    }
    default: return finish(request, failed(Status::invalid_opcode));
  }
}

void Queue::run_connect(Request& request) {
  if (controller_ != nullptr) return finish(request, failed(Status::command_sequence_error));
  nvme::ConnectData data;
  std::memcpy(&data, request.data, sizeof data);
  auto made = shared_.target.connect(request.command, data, terms_.queue_id, terms_.entries, now_);
  if (!made) return finish(request, made.error());
  controller_ = std::move(made->controller);
  joined_at_ = made->at;
  sq_entries_ = (request.command.cdw11 & 0xffff) + 1;
  sq_flow_control_ = (request.command.cdw11 >> 16 & nvme::kDisableSqFlow) == 0;
  finish(request, {.result = controller_->id()});
}

void Queue::run_admin(Request& request) {
  if (request.command.opcode == nvme::kAbort) return run_abort(request);
  const Reply reply = controller_->admin(request.command, {request.data, request.data_bytes},
                                         controller_->subsystem().discovery ? this : nullptr);
  if (!reply.held) return finish(request, reply);
  request.stage = Request::Stage::held;
}

/// Only commands that wait for an event can be aborted. The others end by themselves, and soon.
void Queue::run_abort(Request& request) {
  const auto queue_id = static_cast<uint16_t>(request.command.cdw10);
  const auto command_id = static_cast<uint16_t>(request.command.cdw10 >> 16);
  bool found = false;
  for (Request& one : requests_) {
    if (queue_id != 0 || one.stage != Request::Stage::held || one.command.command_id != command_id) continue;
    found = true;
    controller_->event_answered();
    finish(one, failed(Status::aborted));
    break;
  }
  if (!closed_) finish(request, {.result = found ? 0u : 1u});
}

/// A reset ends event requests. Each has its response, so that the host may use its capsule again.
void Queue::end_held() {
  for (Request& one : requests_) {
    if (one.stage == Request::Stage::held) finish(one, failed(Status::aborted));
    if (closed_) return;
  }
}

void Queue::run_io(Request& request) {
  request.op = request.plan.op;
  request.force_unit_access = request.plan.force_unit_access;
  if (request.op == Io::Op::deallocate) {
    if (!ranges_fit({request.data, request.data_bytes}, *request.plan.target)) {
      return finish(request, failed(Status::lba_out_of_range));
    }
    request.range = 0;
    return next_range(request);
  }
  request.offset = request.plan.offset;
  request.length = request.plan.length;
  request.stage = Request::Stage::backend;
  ++ios_;
  request.plan.target->backend->submit(request, shared_.ring);
}

void Queue::next_range(Request& request) {
  while (request.range < request.plan.ranges) {
    take_range({request.data, request.data_bytes}, request.range++, request.plan);
    if (request.plan.length == 0) continue;
    request.offset = request.plan.offset;
    request.length = request.plan.length;
    request.stage = Request::Stage::backend;
    ++ios_;
    return request.plan.target->backend->submit(request, shared_.ring);
  }
  finish(request, {});
}

void Queue::done(Io& io, int error) {
  auto& request = static_cast<Request&>(io);
  --ios_;
  if (closed_) return release(request);
  if (error == 0 && io.op == Io::Op::deallocate) return next_range(request);
  finish(request, failed(status_of(io.op, error)));
}

void Queue::read(std::string_view host_nqn, uint64_t offset, std::span<std::byte> out) const {
  shared_.target.discovery_log(host_nqn, terms_.portal, offset, out);
}

}  // namespace uroce::nvmf
