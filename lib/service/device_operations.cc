#include "service/device_operations.h"

#include <algorithm>
#include <iterator>

#include <fcntl.h>
#include <unistd.h>

#include <uroce/version.h>

#include "queues/layout.h"
#include "service/packet_socket.h"
#include "service/place_of.h"

namespace uroce::service {
namespace {

/// Completion queues and regions of a device that its QP1 has.
constexpr uint32_t kOfQp1 = 1;
/// Mappings of the daemon's budget that queues take beside registered memory: few, each of up to 64 MiB.
constexpr uint32_t kMappingsOfQueues = 64;

/// The device as this client can use it: programs size themselves by these numbers, and some take all that there is.
DeviceInfo within_reach(const ClientState& client, DeviceInfo device) {
  const auto bound = [&](uint32_t& most, Resource resource) {
    most = static_cast<uint32_t>(std::min<uint64_t>(most, client.user->limit(resource, client.peer)));
  };
  device.max_cq -= kOfQp1;
  device.max_mr -= kOfQp1;
  bound(device.max_qp, Resource::qp);
  bound(device.max_cq, Resource::cq);
  bound(device.max_srq, Resource::srq);
  bound(device.max_ah, Resource::ah);
  bound(device.max_flow, Resource::flow);
  if (!client.may_have_raw_packets()) device.max_flow = 0;
  bound(device.max_pd, Resource::pd);
  bound(device.max_mr, Resource::mr);
  bound(device.max_mw, Resource::mr);
  // A region is a mapping of the daemon at least.
  uint32_t mappings = UINT32_MAX;
  bound(mappings, Resource::mapping);
  mappings -= std::min(mappings, kMappingsOfQueues);
  device.max_mr = std::min(device.max_mr, std::max(mappings, 1u));
  return device;
}

std::string range(uint32_t oldest, uint32_t newest) {
  return oldest == newest ? fmt::format("{}", newest) : fmt::format("{} to {}", oldest, newest);
}

/// The side's versions, for error texts.
std::string spoken_by(const message::Hello& side) {
  return fmt::format("{} (protocol {}, queues {})", side.version.substr(0, 64),
                     range(side.oldest_protocol, side.protocol), range(side.oldest_queue_abi, side.queue_abi));
}

}  // namespace

Result<Reply> hello(ClientState& client, const message::Hello& request, Call& call) {
  const message::Hello own{.queue_abi = queues::kAbiVersion,
                           .version = kVersion,
                           .oldest_queue_abi = queues::kOldestAbiVersion,
                           .features = message::kTakesPacketSocket | message::kHandsOver};
  if (request.magic != own.magic) {
    call.malformed = true;
    return fail(EPROTO,
                fmt::format("the first message does not begin with {:#x}: it is not a uroce client's", own.magic));
  }
  const auto protocol =
      message::common_version(own.protocol, own.oldest_protocol, request.protocol, request.oldest_protocol);
  const auto queues =
      message::common_version(own.queue_abi, own.oldest_queue_abi, request.queue_abi, request.oldest_queue_abi);
  if (!protocol || !queues) {
    const bool older = request.protocol < own.oldest_protocol || request.queue_abi < own.oldest_queue_abi;
    return fail(EPROTONOSUPPORT,
                fmt::format("the application's uroce library is {}, the daemon is {}; upgrade the {}",
                            spoken_by(request), spoken_by(own), older ? "application's library" : "daemon (uroced)"));
  }
  client.program.greeted = true;
  client.server.log_of_client(client.peer.payer(), Severity::debug,
                              fmt::format("client {} ({}, process {}, user {}) has come, and speaks protocol {}",
                                          client.id, client.peer.command, client.peer.pid, client.peer.uid, *protocol));
  client.program.protocol = *protocol;
  message::HelloReply answer{.daemon = own};
  answer.daemon.protocol = *protocol;
  answer.daemon.queue_abi = *queues;
  for (const auto& device : client.server.devices()) answer.devices.push_back(device->info());
  return reply(client, answer);
}

Result<Reply> prove_raw_packets(ClientState& client, const message::Empty& /*request*/, Call& call) {
  if (call.fds.size() != 1) {
    return fail(EINVAL, fmt::format("one packet socket proves CAP_NET_RAW, but {} descriptors came", call.fds.size()));
  }
  auto proved = check_packet_socket(call.fds[0].get(), client.program.socket, client.server.rights());
  if (!proved) {
    client.program.proof_refusal = proved.error().text;
    return std::unexpected(proved.error());
  }
  client.program.has_packet_socket = true;
  return Reply{};
}

Result<Reply> barrier(ClientState& /*client*/, const message::Empty& /*request*/) { return Reply{}; }

std::shared_ptr<Arena> make_arena(const ClientState& client) {
  const bool guards = FaultWatch::can_guard();
  return std::make_shared<Arena>(
      [user = client.user, peer = client.peer](uint64_t bytes) {
        return user->charge(Resource::queue_bytes, bytes, peer);
      },
      [user = client.user, peer = client.peer](uint64_t bytes) { return user->take_memory(bytes, peer); },
      ArenaRules{.guard = guards && !client.user->privileged(), .seal = !guards, .waits = client.waits});
}

Result<Reply> open_device(ClientState& client, const message::OpenDevice& request) {
  if (client.session != nullptr) {
    return fail(EINVAL, "this number has an open device; close it, or open the device under another number");
  }
  const auto& devices = client.server.devices();
  const auto found = std::ranges::find_if(devices, [&](const auto& d) { return d->config().name == request.name; });
  if (found == devices.end()) {
    return fail(ENODEV,
                fmt::format("the daemon has no device '{}'; `uroce devices` lists them", request.name.substr(0, 64)));
  }
  control::Device& device = **found;
  if (FaultWatch::can_guard() && client.user->must_be_steady()) {
    return fail(EACCES, std::string(WaitAccount::kDeviceRefusal));
  }
  auto arena = make_arena(client);
  auto session = control::DeviceSession::open(*found, arena, client.user->owner(client.id));
  if (!session) return std::unexpected(session.error());
  int ends[2];
  if (pipe2(ends, O_NONBLOCK | O_CLOEXEC) != 0) {
    const int code = errno;
    return fail(code, "pipe: the daemon has no more descriptors; raise its limit (LimitNOFILE)");
  }
  Reply out;
  out.owned.emplace_back(ends[0]);
  message::Fd write_end(ends[1]);
  for (uint32_t engine = 0; engine < device.engines(); ++engine) {
    auto wake = device.wake_descriptor(engine);
    if (!wake) return std::unexpected(wake.error());
    out.owned.emplace_back(*wake);
  }
  for (const auto& fd : out.owned) out.fds.push_back(fd.get());
  message::encode(out.body,
                  message::OpenDeviceReply{.device = within_reach(client, device.info()),
                                           .doorbells = place_of((*session)->doorbells().small_rings()),
                                           .doorbell_entries = (*session)->doorbells().small_entries()},
                  client.program.protocol);
  if (!client.stands_for_program()) {
    if (auto admitted = client.admit(); !admitted) return std::unexpected(admitted.error());
  }
  const std::scoped_lock lock(client.session_mutex);
  client.session = std::move(*session);
  client.counted.emplace(client.user->traffic(), *client.session);
  client.arena = std::move(arena);
  client.async_pipe = std::move(write_end);
  return out;
}

Result<Reply> close_device(ClientState& client, const message::Empty& /*request*/) {
  client.release();
  return Reply{};
}

std::vector<std::pair<std::string, uint64_t>> port_counters_of(const ServerView& server,
                                                               const control::Device& device) {
  const std::string& name = device.config().name;
  auto values = device.counters();
  if (const auto& port = server.ports().counters) std::ranges::move(port(name), std::back_inserter(values));
  const auto before = server.earlier_counters().find(name);
  if (before == server.earlier_counters().end()) return values;
  for (auto& [counter, value] : values) {
    const auto earlier = before->second.find(counter);
    if (earlier != before->second.end()) value += earlier->second;
  }
  return values;
}

std::vector<std::pair<std::string, uint64_t>> counters_of(const ServerView& server, const control::Device& device) {
  const std::string& name = device.config().name;
  auto values = port_counters_of(server, device);
  if (const cm::Manager* manager = server.connections()) {
    std::ranges::move(manager->counters(name), std::back_inserter(values));
  }
  return values;
}

Result<Reply> counters(ClientState& client, const message::Empty& /*request*/) {
  return reply(client, message::Counters{counters_of(client.server, *client.session->device())});
}

Result<Reply> clock(ClientState& client, const message::Empty& /*request*/) {
  auto now = client.session->device()->clock();
  if (!now) return std::unexpected(now.error());
  return reply(client, message::Clock{static_cast<uint64_t>(now->count())});
}

Result<Reply> query_gids(ClientState& client, const message::Empty& /*request*/) {
  message::Gids gids;
  for (const Gid& gid : client.session->device()->gids()) gids.bytes.push_back(gid.bytes);
  return reply(client, gids);
}

Result<Reply> link_up(ClientState& client, const message::Empty& /*request*/) {
  auto up = client.session->device()->link_up();
  if (!up) return std::unexpected(up.error());
  return reply(client, message::LinkUp{*up});
}

}  // namespace uroce::service
