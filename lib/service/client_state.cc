#include "service/client_state.h"

#include <chrono>

#include <unistd.h>

#include <fmt/format.h>

#include "message/device_messages.h"

namespace uroce::service {
namespace {

/// The socket, the pipe of asynchronous events, and pieces of queue memory, each twice as large as the last.
constexpr uint64_t kDescriptorsOfDevice = 8;

}  // namespace

void Program::release() {
  capture.reset();
  capture_room = {};
  connections.reset();
  cm_channels.clear();
}

Result<Charge> ClientState::charge_spare(Resource resource) const {
  if (user->used(resource) < user->limit(resource, peer) / 2) return charge(resource);
  return fail(EBUSY, "the rest is for objects");
}

Result<void> ClientState::admit() {
  auto charged = charge(Resource::connection);
  if (!charged) return std::unexpected(charged.error());
  auto open = charge(Resource::descriptor, kDescriptorsOfDevice);
  if (!open) return std::unexpected(open.error());
  connection = std::move(*charged);
  descriptors = std::move(*open);
  return {};
}

// Queue pairs and their rules first, so that no new work begins; then the objects that they used; the session last.
void ClientState::release() {
  flows.clear();
  qps.clear();
  srqs.clear();
  xrc_domains.clear();
  cqs.clear();
  channels.clear();
  address_handles.clear();
  windows.clear();
  regions.clear();
  prepared.reset();
  settle_waits();  // what came too late for the server's thread
  pds.clear();
  std::shared_ptr<control::DeviceSession> closed;
  std::shared_ptr<Arena> memory;
  {
    const std::scoped_lock lock(session_mutex);
    closed.swap(session);
    memory.swap(arena);
  }
  counted.reset();
  closed.reset();
  memory.reset();
  async_pipe.reset();
  registered_bytes.store(0, std::memory_order_relaxed);
  if (stands_for_program()) return;
  calls.store(0, std::memory_order_relaxed);
  errors.store(0, std::memory_order_relaxed);
  connection = {};
  descriptors = {};
}

void ClientState::forward_events() {
  // A full pipe loses events, as a full queue does: the client does not read them.
  while (auto event = session->events().pop()) {
    const message::AsyncRecord record{static_cast<uint32_t>(event->type), event->object};
    [[maybe_unused]] const auto written = write(async_pipe.get(), &record, sizeof record);
  }
}

WaitAccount::Verdict ClientState::settle_waits() {
  const Nanos waited(waits->nanoseconds.exchange(0, std::memory_order_relaxed));
  if (waited == Nanos(0)) return WaitAccount::Verdict::allowed;
  const auto verdict = user->note_wait(waited);
  const std::string what = fmt::format(
      "user {}: client {} ({}, process {}) removed pages of a file of {} bytes while an engine used them; the engine "
      "took "
      "{} ms",
      peer.uid, id, peer.command, peer.pid, waits->file.load(std::memory_order_relaxed),
      std::chrono::ceil<std::chrono::milliseconds>(waited).count());
  // A user has few of the others: it is refused memory that makes engines wait.
  if (verdict == WaitAccount::Verdict::allowed) {
    server.log_of_client(peer.payer(), Severity::warning, what);
  } else {
    server.log_always(Severity::warning, what + std::string(WaitAccount::consequence(verdict)));
  }
  return verdict;
}

}  // namespace uroce::service
