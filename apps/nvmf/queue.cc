// The RDMA half of a queue: its objects, receives, READs, WRITEs and SENDs. queue_commands.cc has the NVMe half.
#include "nvmf/queue.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>

namespace uroce::nvmf {

using nvme::Status;

namespace {

constexpr std::size_t kBatch = 16;
constexpr Nanos kConnectLimit = std::chrono::seconds(30);
/// After so much silence on all queues of a controller its host is probed, as often.
constexpr Nanos kProbeAfter = std::chrono::seconds(30);

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

Result<std::unique_ptr<Queue>> Queue::create(Device& device, const Shared& shared, const Terms& terms, Nanos now) {
  QueueMemory memory(terms.entries);
  if (memory.memory().empty()) return fail(ENOMEM, "no memory for the receives of a queue");
  auto region = device.pd.register_memory(memory.memory().data(), memory.memory().size(), Access::local_write);
  if (!region) return std::unexpected(region.error());
  // Twice as many requests as commands: the earlier half may wait for acknowledgements of their responses.
  const uint32_t requests = 2 * terms.entries;
  auto cq = device.context.create_cq(terms.entries + 2 * requests + 1);
  if (!cq) return std::unexpected(cq.error());
  // A WRITE and a SEND for each, and a probe.
  const QpInit init{.cap = {.max_send_wr = 2 * requests + 1,
                            .max_recv_wr = terms.entries,
                            .max_send_sge = 1,
                            .max_recv_sge = 2,
                            .max_inline_data = sizeof(nvme::Response)},
                    .engine = device.engine};
  auto qp = device.context.create_qp(device.pd, *cq, *cq, init);
  if (!qp) return std::unexpected(qp.error());
  return std::unique_ptr<Queue>(
      new Queue(device, shared, terms, std::move(memory), std::move(*region), std::move(*cq), std::move(*qp), now));
}

Queue::Queue(Device& device, const Shared& shared, const Terms& terms, QueueMemory memory, MemoryRegion region,
             CompletionQueue cq, QueuePair qp, Nanos now)
    : device_(device),
      shared_(shared),
      terms_(terms),
      share_(shared.pool.open(terms.host)),
      memory_(std::move(memory)),
      region_(std::move(region)),
      cq_(std::move(cq)),
      qp_(std::move(qp)),
      requests_(2 * std::size_t{terms.entries}),
      late_(terms.entries),
      now_(now),
      connect_limit_(now + kConnectLimit) {
  for (Request& request : requests_) {
    request.queue = this;
    request.client = this;
    request.next_free = std::exchange(first_free_, &request);
  }
}

Queue::~Queue() {
  close();
  shared_.pool.close(share_);
}

Result<void> Queue::post_receives() {
  for (uint32_t slot = 0; slot < terms_.entries; ++slot) {
    if (!post_receive(static_cast<uint16_t>(slot))) return fail(EIO, "cannot post the receives of a queue");
  }
  return {};
}

bool Queue::post_receive(uint16_t slot) {
  const std::array<Sge, 2> parts{region_.sge(memory_.entry_offset(slot), sizeof(nvme::Command)),
                                 region_.sge(memory_.data_offset(slot), kInCapsuleBytes)};
  return qp_->post_recv({.wr_id = uint64_t{static_cast<uint8_t>(Work::receive)} << 32 | slot, .sges = parts}) == 0;
}

bool Queue::poll(Nanos now) {
  now_ = now;
  if (closed_) return false;
  std::array<Completion, kBatch> completions;
  const std::size_t count = cq_.poll(completions);
  for (std::size_t i = 0; i < count && !closed_; ++i) on_completion(completions[i]);
  return count > 0;
}

void Queue::on_completion(const Completion& completion) {
  // A failed READ or SEND means that the connection is broken, and a failed receive that the capsule was too long.
  if (completion.status != WcStatus::success) return close();
  const auto index = static_cast<uint32_t>(completion.wr_id);
  switch (static_cast<Work>(completion.wr_id >> 32)) {
    case Work::receive: return on_capsule(static_cast<uint16_t>(index), completion.byte_len);
    case Work::read: return run(requests_[index]);
    case Work::respond: return release(requests_[index]);
    case Work::probe: probing_ = false; return;
  }
}

void Queue::on_capsule(uint16_t slot, uint32_t bytes) {
  if (first_free_ == nullptr) {
    late_[(late_head_ + late_count_++) % late_.size()] = {slot, bytes};
    return;
  }
  Request& request = *first_free_;
  first_free_ = request.next_free;
  request.slot = slot;
  start(request, bytes);
}

/// A buffer for data that does not travel in the capsule, or not on a page there. Data from the host comes by RDMA READ
/// first.
void Queue::fetched_buffer(Request& request, std::byte* buffer) {
  request.buffer = buffer;
  if (const auto* const here = std::exchange(request.data, buffer)) {
    std::memcpy(buffer, here, request.data_bytes);
    return run(request);
  }
  if (direction_of(request.command) != Direction::from_host) return run(request);
  request.stage = Request::Stage::reading;
  const auto offset = static_cast<std::size_t>(buffer - shared_.pool.memory().data());
  const Sge into = device_.buffers.sge(offset, request.data_bytes);
  const auto index = static_cast<uint64_t>(&request - requests_.data());
  const SendRequest read{.wr_id = uint64_t{static_cast<uint8_t>(Work::read)} << 32 | index,
                         .opcode = WrOpcode::rdma_read,
                         .flags = SendFlag::signaled,
                         .sges = {&into, 1},
                         .remote_addr = request.transfer.address,
                         .rkey = request.transfer.key};
  if (qp_->post_send(read) != 0) close();
}

void Queue::count(const Request& request, Status status) {
  QueueCounters& counters = shared_.counters;
  counters.commands.add();
  if (status != Status::success || request.data_bytes == 0) return;
  if (request.command.opcode == nvme::kRead) counters.bytes_read.add(request.data_bytes);
  if (request.command.opcode == nvme::kWrite) counters.bytes_written.add(request.data_bytes);
}

void Queue::finish(Request& request, const Reply& reply) {
  if (terms_.queue_id != 0) count(request, reply.status);
  sq_head_ = (sq_head_ + 1) % sq_entries_;
  nvme::Response response{};
  response.result = reply.result;
  response.sq_head = sq_flow_control_ ? static_cast<uint16_t>(sq_head_) : uint16_t{0xffff};
  response.command_id = request.command.command_id;
  response.status = status_field(reply.status);
  // The receive first: the host may send the next command as soon as it has the response.
  request.stage = Request::Stage::responding;
  if (!post_receive(request.slot)) return close();

  std::array<SendRequest, 2> work{};
  std::size_t count = 0;
  const auto index = static_cast<uint64_t>(&request - requests_.data());
  Sge from{};
  const bool to_host = direction_of(request.command) == Direction::to_host;
  if (reply.status == Status::success && to_host && request.data_bytes > 0) {
    from = device_.buffers.sge(static_cast<std::size_t>(request.buffer - shared_.pool.memory().data()),
                               request.data_bytes);
    work[count++] = {.wr_id = index,
                     .opcode = WrOpcode::rdma_write,
                     .sges = {&from, 1},
                     .remote_addr = request.transfer.address,
                     .rkey = request.transfer.key};
  }
  work[count++] = {.wr_id = uint64_t{static_cast<uint8_t>(Work::respond)} << 32 | index,
                   .opcode = request.transfer.invalidate ? WrOpcode::send_with_invalidate : WrOpcode::send,
                   .flags = SendFlag::signaled | SendFlag::inline_data,
                   .inline_data = std::as_bytes(std::span(&response, 1)),
                   .imm_or_key = request.transfer.key};
  if (qp_->post_send(std::span(work.data(), count)) != count) close();
}

void Queue::release(Request& request) {
  request.stage = Request::Stage::free;
  request.next_free = std::exchange(first_free_, &request);
  if (auto* const buffer = std::exchange(request.buffer, nullptr)) shared_.pool.give(share_, buffer);
  if (late_count_ == 0 || closed_ || first_free_ == nullptr) return;
  const auto [slot, bytes] = late_[late_head_];
  late_head_ = (late_head_ + 1) % static_cast<uint32_t>(late_.size());
  --late_count_;
  on_capsule(slot, bytes);
}

void Queue::close() {
  if (std::exchange(closed_, true)) return;
  // No engine reads or writes buffers once the queue pair is gone.
  qp_.reset();
  if (controller_ != nullptr) {
    if (terms_.queue_id == 0) {
      shared_.target.remove(*controller_);
    } else {
      controller_->leave(terms_.queue_id, joined_at_);
    }
  }
  // A buffer that is released must not go to another request of this queue.
  for (Request& request : requests_) {
    if (request.stage == Request::Stage::waiting) shared_.pool.forget(share_, request);
  }
  for (Request& request : requests_) {
    if (request.stage != Request::Stage::free && request.stage != Request::Stage::backend) release(request);
  }
}

void Queue::check(Nanos now) {
  if (closed_) return;
  if (controller_ == nullptr) {
    if (now > connect_limit_) close();
    return;
  }
  if (controller_->ended()) return close();
  if (terms_.queue_id != 0) {
    if (controller_->resets() != joined_at_) close();
    return;
  }
  if (controller_->expired(now)) return close();
  if (now >= next_probe_ && controller_->silence(now) > kProbeAfter) probe(now);
}

/// A host may do without keep alive, or choose a timeout of weeks. An RDMA WRITE of no bytes needs no key (IBTA vol. 1,
/// C9-88), and the host's device acknowledges it, or the transport gives up.
void Queue::probe(Nanos now) {
  if (std::exchange(probing_, true)) return;
  next_probe_ = now + kProbeAfter;
  const SendRequest write{.wr_id = uint64_t{static_cast<uint8_t>(Work::probe)} << 32,
                          .opcode = WrOpcode::rdma_write,
                          .flags = SendFlag::signaled};
  if (qp_->post_send(write) != 0) close();
}

}  // namespace uroce::nvmf
