#include "service/operator_operations.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>

#include "message/capture_ring.h"
#include "service/fault_watch.h"
#include "service/guess_watch.h"

namespace uroce::service {
namespace {

/// They fit a packet.
constexpr std::size_t kPeersPerReply = 200;
constexpr std::size_t kFaultsPerReply = 50;

/// How long a capture that ended with its reader may be in the way of the next one, and how often to look.
constexpr std::chrono::milliseconds kCaptureEnds{1000}, kCaptureLook{10};

}  // namespace

Result<Reply> list_clients(ClientState& client, const message::ListClients& request) {
  return reply(client, client.server.client_rows(request.after, Sight(client.peer)));
}

Result<Reply> list_users(ClientState& client, const message::ListUsers& request) {
  return reply(client, client.server.user_rows(request.after, Sight(client.peer)));
}

Result<Reply> list_history(ClientState& client, const message::ListHistory& request) {
  return reply(client, client.server.history().rows(request, Sight(client.peer), std::chrono::steady_clock::now()));
}

Result<Reply> list_left(ClientState& client, const message::ListLeft& request) {
  return reply(client, client.server.history().left(request.after, Sight(client.peer)));
}

Result<Reply> list_objects(ClientState& client, const message::ListObjects& request) {
  return reply(client, client.server.object_rows(request, Sight(client.peer)));
}

// Everybody may see counters.
Result<Reply> list_engines(ClientState& client, const message::Empty& /*request*/) {
  message::EngineRows out;
  if (const auto& engines = client.server.ports().engines) out.rows = engines();
  return reply(client, out);
}

// A peer may serve many users, and a guess hits none in particular.
Result<Reply> list_peers(ClientState& client, const message::ListPeers& request) {
  if (!Sight(client.peer).everything()) {
    return fail(EPERM,
                fmt::format("peers that guess numbers are for root and the daemon's own user to see, not for user "
                            "{}, or for a container's root",
                            client.peer.uid));
  }
  const auto& devices = client.server.devices();
  const auto device =
      std::ranges::find(devices, request.device, [](const auto& one) -> const auto& { return one->config().name; });
  if (device == devices.end()) {
    return fail(ENODEV, fmt::format("unknown device '{}'; `uroce devices` lists them", request.device.substr(0, 64)));
  }
  auto peers = guesses_at(**device, client.server.connections());
  if (!peers) return std::unexpected(peers.error());
  message::PeerRows out;
  for (const PeerGuesses& peer : *peers) {
    if (peer.peer <= request.after) continue;
    out.more = out.rows.size() == kPeersPerReply;
    if (out.more) break;
    const auto ago = std::chrono::duration_cast<std::chrono::milliseconds>(peer.ago);
    auto& row = out.rows.emplace_back(
        message::PeerRow{.peer = peer.peer, .last_ms = static_cast<uint64_t>(std::max(ago.count(), int64_t{0}))});
    for (std::size_t kind = 0; kind < kGuessNames.size(); ++kind) {
      row.guesses.emplace_back(kGuessNames[kind], peer.counts[kind]);
    }
  }
  return reply(client, out);
}

namespace {

/// Rules change the frames of all clients.
Result<Faults*> faults_for(const ClientState& client) {
  if (!client.peer.privileged) {
    return fail(EPERM, fmt::format("fault rules are for root and the daemon's own user, not for user {}, or for a "
                                   "container's root",
                                   client.peer.uid));
  }
  Faults* const faults = client.server.ports().faults.get();
  if (faults == nullptr) return fail(EOPNOTSUPP, "this daemon has no fault rules; use uroced");
  return faults;
}

}  // namespace

Result<Reply> list_faults(ClientState& client, const message::ListFaults& request) {
  const auto faults = faults_for(client);
  if (!faults) return std::unexpected(faults.error());
  message::FaultRows out;
  for (message::FaultRow& row : (*faults)->list()) {
    if (row.number <= request.after) continue;
    out.more = out.rows.size() == kFaultsPerReply;
    if (out.more) break;
    out.rows.push_back(std::move(row));
  }
  return reply(client, out);
}

Result<Reply> add_faults(ClientState& client, const message::AddFaults& request) {
  const auto faults = faults_for(client);
  if (!faults) return std::unexpected(faults.error());
  const auto added = (*faults)->add(request.rules, request.source);
  if (!added) return std::unexpected(added.error());
  client.server.log_always(Severity::info, fmt::format("{} adds fault rules {} to {}", process_text(client.peer.pid),
                                                       added->first, added->last));
  return reply(client, *added);
}

Result<Reply> clear_faults(ClientState& client, const message::ClearFaults& request) {
  const auto faults = faults_for(client);
  if (!faults) return std::unexpected(faults.error());
  if (auto done = (*faults)->clear(request.number); !done) return std::unexpected(done.error());
  client.server.log_always(
      Severity::info,
      fmt::format("{} clears {}", process_text(client.peer.pid),
                  request.number == 0 ? "all fault rules" : fmt::format("fault rule {}", request.number)));
  return Reply{};
}

// Frames have the data of all clients, so capturing is restricted, as with the kernel's raw sockets.
Result<Reply> start_capture(ClientState& client, const message::OpenDevice& request) {
  if (!client.peer.privileged) {
    return fail(
        EPERM,
        fmt::format("capturing is for root and the daemon's own user, not for user {}, or for a container's root",
                    client.peer.uid));
  }
  if (client.program.capture != nullptr) {
    return fail(EBUSY, "this connection has a capture already; open another connection for another device");
  }
  if (!client.server.ports().capture) return fail(EOPNOTSUPP, "this daemon has no captures; use uroced");
  auto capture = client.server.ports().capture(request.name);
  // The last reader may have ended, or been killed, a moment ago.
  const auto limit = std::chrono::steady_clock::now() + kCaptureEnds;
  while (!capture && capture.error().code == EBUSY && std::chrono::steady_clock::now() < limit) {
    std::this_thread::sleep_for(kCaptureLook);
    capture = client.server.ports().capture(request.name);
  }
  if (!capture) return std::unexpected(capture.error());
  // Engines fill the rings as frames come.
  auto room = client.user->take_memory((*capture)->rings() * message::kCaptureStride, client.peer);
  if (!room) return std::unexpected(room.error());
  client.program.capture_room = std::move(*room);
  client.program.capture = std::move(*capture);
  auto out = reply(client, message::CaptureReply{.rings = client.program.capture->rings(),
                                                 .epoch_ns = client.program.capture->epoch_ns()});
  out->fds.push_back(client.program.capture->fd());
  return out;
}

// /proc shows no process of another container. One that has this daemon's user, and its network's raw packets, may.
Result<Reply> take_over(ClientState& client, const message::TakeOver& request) {
  const DaemonRights& own = client.server.rights();
  const bool as_container =
      client.peer.pid == 0 && client.program.has_packet_socket && (client.peer.uid == 0 || client.peer.uid == own.uid);
  if (!client.peer.privileged && !as_container) {
    return fail(EPERM, fmt::format("taking over is for root and the daemon's own user, not for user {}, or for a "
                                   "container's root",
                                   client.peer.uid));
  }
  auto turn = client.server.begin_succession(request, client.peer.pid);
  if (!turn) return std::unexpected(turn.error());
  client.program.turn = std::move(*turn);
  client.server.log_always(Severity::info, fmt::format("{}, uroced {}, prepares to take over",
                                                       process_text(client.peer.pid), request.version.substr(0, 64)));
  return Reply{};
}

Result<Reply> restart_row(ClientState& client, const message::Empty& /*request*/) {
  message::RestartRow out = client.server.restart_row();
  if (!FaultWatch::can_guard()) {
    out.obstacles.emplace_back("userfaultfd is not permitted to the daemon; allow the system call in its filter");
  }
  return reply(client, out);
}

message::ClientRow row_of(const ClientState& client) {
  message::ClientRow row{
      .id = client.id, .pid = client.peer.pid, .uid = client.peer.uid, .command = client.peer.command};
  {
    const std::scoped_lock lock(client.session_mutex);
    if (client.session != nullptr) {
      row.device = client.session->device()->config().name;
      row.queue_bytes = client.arena->used();
      row.traffic = to_message(client.session->traffic());
    }
  }
  row.qps = client.qps.size();
  row.cqs = client.cqs.size();
  row.srqs = client.srqs.size();
  row.mrs = client.regions.size();
  row.pds = client.pds.size();
  row.ahs = client.address_handles.size();
  row.registered_bytes = client.registered_bytes.load(std::memory_order_relaxed);
  row.calls = client.calls.load(std::memory_order_relaxed);
  row.errors = client.errors.load(std::memory_order_relaxed);
  return row;
}

}  // namespace uroce::service
