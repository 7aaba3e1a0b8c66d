#include "nvmf/queue.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <utility>

namespace uroce::nvmf {

using nvme::Status;

namespace {

constexpr std::size_t kBatch = 16;
constexpr Nanos kConnectLimit = std::chrono::seconds(30);
/// After so much silence on all queues of a controller its host is probed.
constexpr Nanos kProbeAfter = std::chrono::seconds(30);

/// Twice as many as commands: the earlier half may wait for acknowledgements of their responses.
constexpr uint32_t requests_of(uint32_t entries) { return 2 * entries; }

Reply failed(Status status) { return {.status = status}; }

}  // namespace

Result<std::unique_ptr<Queue>> Queue::create(Device& device, const Shared& shared, const Terms& terms, Nanos now) {
  auto link = QueueLink::open(device, terms.entries, requests_of(terms.entries), shared.pool.memory().data());
  if (!link) return std::unexpected(link.error());
  return std::unique_ptr<Queue>(new Queue(std::move(*link), shared, terms, now));
}

Queue::Queue(QueueLink link, const Shared& shared, const Terms& terms, Nanos now)
    : queue_id_(terms.queue_id),
      pool_(shared.pool),
      share_(pool_.open(terms.host)),
      counters_(shared.counters),
      link_(std::move(link)),
      commands_(shared.target, terms.queue_id, terms.entries, terms.portal, terms.host, now + kConnectLimit),
      io_(shared.ring),
      requests_(requests_of(terms.entries), terms.entries, *this, *this),
      now_(now) {}

Queue::~Queue() {
  close();
  pool_.close(share_);
}

bool Queue::poll(Nanos now) {
  now_ = now;
  if (closed_) return false;
  std::array<Completion, kBatch> completions;
  const std::size_t count = link_.poll(completions);
  for (std::size_t i = 0; i < count && !closed_; ++i) on_ended(QueueLink::ended(completions[i]));
  return count > 0;
}

void Queue::on_ended(const QueueLink::Ended& ended) {
  // A failed READ or SEND means that the connection is broken, and a failed receive that the capsule was too long.
  if (ended.failed) return close();
  switch (ended.work) {
    case QueueLink::Work::receive: return on_capsule({static_cast<uint16_t>(ended.index), ended.bytes});
    case QueueLink::Work::read: return run(requests_[ended.index]);
    case QueueLink::Work::respond: return release(requests_[ended.index]);
    case QueueLink::Work::probe: return link_.probe_ended();
  }
}

void Queue::on_capsule(Capsule capsule) {
  Request* const request = requests_.take();
  if (request == nullptr) return requests_.keep(capsule);
  request->slot = capsule.slot;
  start(*request, capsule.bytes);
}

void Queue::start(Request& request, uint32_t bytes) {
  const auto command = command_of({link_.entry(request.slot), std::min<std::size_t>(bytes, sizeof(nvme::Command))});
  // Without a command identifier there is no response (RDMA binding, 7.3.6: the connection is ended).
  if (!command) return close();
  request.command = *command;
  request.transfer = {};
  request.data_bytes = 0;
  request.data = nullptr;
  commands_.heard(now_);
  const auto transfer = transfer_of(request.command, bytes - sizeof(nvme::Command));
  if (!transfer) return finish(request, failed(transfer.error()));
  request.transfer = *transfer;
  const auto needed = commands_.measure(request.command, request.plan);
  if (!needed) return finish(request, failed(needed.error()));
  if (*needed == 0) return run(request);
  // Linux describes room for 256 ranges whatever their number. The rest is not fetched.
  const bool may_be_longer = !is_admin() && request.command.opcode == nvme::kDatasetManagement;
  const uint32_t length = request.transfer.length;
  if (request.transfer.kind == Transfer::Kind::none || length < *needed || (length > *needed && !may_be_longer)) {
    return finish(request, failed(Status::sgl_length_invalid));
  }
  request.data_bytes = *needed;
  if (request.transfer.kind == Transfer::Kind::in_capsule) {
    request.data = link_.data(request.slot) + request.transfer.address;
    // Backends without a cache want data on a page. Identify promises any offset, which hosts hardly use.
    if (request.transfer.address % nvme::kPageBytes == 0) return run(request);
  }
  if (std::byte* const buffer = pool_.take(share_)) return fetch(request, buffer);
  request.stage = Request::Stage::waiting;
  pool_.wait(share_, request);
}

/// A buffer for data that does not travel in the capsule, or not on a page there. Data from the host comes by RDMA READ
/// first.
void Queue::fetch(Request& request, std::byte* buffer) {
  request.buffer = buffer;
  if (const auto* const here = std::exchange(request.data, buffer)) {
    std::memcpy(buffer, here, request.data_bytes);
    return run(request);
  }
  if (direction_of(request.command) != Direction::from_host) return run(request);
  request.stage = Request::Stage::reading;
  if (!link_.read(request, {buffer, request.data_bytes})) close();
}

void Queue::run(Request& request) {
  if (request.command.opcode == nvme::kFabrics) return run_fabrics(request);
  return is_admin() ? run_admin(request) : run_io(request);
}

void Queue::run_fabrics(Request& request) {
  const Reply reply = commands_.fabrics(request.command, {request.data, request.data_bytes}, now_);
  if (commands_.forgot_events()) end_held();
  if (!closed_) finish(request, reply);
}

void Queue::run_admin(Request& request) {
  if (request.command.opcode == nvme::kAbort) return run_abort(request);
  const Reply reply = commands_.admin(request.command, {request.data, request.data_bytes});
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
    commands_.event_answered();
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

/// Once the controller has an event for the host.
void Queue::tell_event() {
  const auto event = commands_.take_event();
  if (!event) return;
  for (Request& one : requests_) {
    if (one.stage != Request::Stage::held) continue;
    commands_.event_answered();
    return finish(one, {.result = *event});
  }
}

void Queue::run_io(Request& request) {
  request.stage = Request::Stage::backend;
  if (request.plan.op == Io::Op::deallocate) return run_ranges(request);
  io_.start(request);
}

void Queue::run_ranges(Request& request) {
  if (!io_.start_ranges(request)) return finish(request, failed(Status::lba_out_of_range));
  next_range(request);
}

void Queue::next_range(Request& request) {
  if (!io_.next_range(request)) finish(request, {});
}

void Queue::done(Io& io, int error) {
  auto& request = static_cast<Request&>(io);
  io_.ended();
  if (closed_) return release(request);
  if (error == 0 && io.op == Io::Op::deallocate) return next_range(request);
  finish(request, failed(IoRunner::status_of(request, error)));
}

void Queue::count(const Request& request, Status status) {
  counters_.commands.add();
  if (status != Status::success || request.data_bytes == 0) return;
  if (request.command.opcode == nvme::kRead) counters_.bytes_read.add(request.data_bytes);
  if (request.command.opcode == nvme::kWrite) counters_.bytes_written.add(request.data_bytes);
}

void Queue::finish(Request& request, const Reply& reply) {
  if (!is_admin()) count(request, reply.status);
  const nvme::Response response = commands_.respond(request.command, reply);
  request.stage = Request::Stage::responding;
  std::span<const std::byte> data{};
  const bool to_host = direction_of(request.command) == Direction::to_host;
  if (reply.status == Status::success && to_host) data = {request.buffer, request.data_bytes};
  if (!link_.respond(request, response, data)) close();
}

void Queue::release(Request& request) {
  requests_.give(request);
  if (auto* const buffer = std::exchange(request.buffer, nullptr)) pool_.give(share_, buffer);
  if (requests_.may_take_kept() && !closed_) on_capsule(requests_.take_kept());
}

void Queue::close() {
  if (std::exchange(closed_, true)) return;
  link_.close();
  commands_.leave();
  // A buffer that is released must not go to another request of this queue.
  for (Request& request : requests_) {
    if (request.stage == Request::Stage::waiting) pool_.forget(share_, request);
  }
  for (Request& request : requests_) {
    if (request.stage != Request::Stage::free && request.stage != Request::Stage::backend) release(request);
  }
}

void Queue::check(Nanos now) {
  if (closed_) return;
  if (commands_.over(now)) return close();
  tell_event();
  if (commands_.silence(now) > kProbeAfter && !link_.probe(now)) close();
}

}  // namespace uroce::nvmf
