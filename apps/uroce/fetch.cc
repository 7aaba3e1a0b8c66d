#include "uroce/fetch.h"

#include <fmt/format.h>
#include <unistd.h>

#include <uroce/daemon.h>
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <map>

#include "client/daemon_link.h"
#include "client/device_link.h"
#include "client/fetch_rows.h"
#include "message/connection.h"
#include "message/device_messages.h"
#include "uroce/values.h"

namespace uroce::cli {

namespace {

using client::DaemonLink;
using client::fetch_rows;
using message::Op;

Result<std::unique_ptr<DaemonLink>> connect(const Source& source) {
  return DaemonLink::open({.socket = source.socket});
}

/// Whether it is on a device that the source names.
bool is_wanted(const Source& source, const std::string& device) {
  return source.device.empty() || device == source.device;
}

/// The devices that the source names. Errors: ENODEV.
Result<std::vector<DeviceRow>> devices_on(const DaemonLink& link, const Source& source) {
  std::vector<DeviceRow> devices(link.devices().begin(), link.devices().end());
  if (source.device.empty()) return devices;
  std::erase_if(devices, [&](const DeviceRow& one) { return one.name != source.device; });
  if (!devices.empty()) return devices;
  return fail(ENODEV, fmt::format("unknown device '{}'; `uroce devices` lists them", source.device));
}

/// The connections on all devices. Errors: ENODEV.
Result<std::vector<ClientRow>> all_clients(DaemonLink& link, const Source& source) {
  if (auto known = devices_on(link, source); !known) return std::unexpected(known.error());
  auto rows = fetch_rows<message::ClientRows>(
      link, Op::list_clients, message::ListClients{},
      [](message::ListClients& request, const ClientRow& row) { request.after = row.id; });
  if (!rows) return rows;
  std::erase_if(*rows, [&](const ClientRow& row) { return row.pid == getpid() && !source.own; });
  return rows;
}

Result<std::vector<ClientRow>> clients_on(DaemonLink& link, const Source& source) {
  auto rows = all_clients(link, source);
  if (rows) std::erase_if(*rows, [&](const ClientRow& row) { return !is_wanted(source, row.device); });
  return rows;
}

/// As the tool shows it. Ids of rdma_cm name their device themselves.
ObjectRow shown(message::ObjectRow row, const ClientRow& client) {
  ObjectRow out{.device = client.device, .client = row.client, .pid = client.pid, .command = client.command};
  for (auto& [name, value] : row.values) {
    if (name == "device") {
      out.device = std::move(value);
    } else {
      out.values.emplace_back(name, readable(name, std::move(value)));
    }
  }
  return out;
}

}  // namespace

Result<void> find_here(const Source& source) {
  constexpr std::chrono::seconds kPatience{1};
  const std::string path = client::socket_path({.socket = source.socket});
  const auto connection = message::Connection::to(path, kPatience);
  if (!connection) return std::unexpected(connection.error());
  if (connection->peer_process() > 0) return {};
  return fail(ESRCH, fmt::format("the uroce daemon at {} is in another container", path));
}

Result<std::vector<DeviceRow>> fetch_devices(const Source& source) {
  auto link = connect(source);
  if (!link) return std::unexpected(link.error());
  return devices_on(**link, source);
}

Result<std::vector<ObjectRow>> fetch_objects(const Source& source, message::Kind kind) {
  auto link = connect(source);
  if (!link) return std::unexpected(link.error());
  const auto clients = all_clients(**link, source);
  if (!clients) return std::unexpected(clients.error());
  std::map<uint32_t, const ClientRow*> client_of;
  for (const ClientRow& row : *clients) client_of[row.id] = &row;
  auto rows = fetch_rows<message::ObjectRows>(**link, Op::list_objects, message::ListObjects{.kind = kind},
                                              [](message::ListObjects& request, const message::ObjectRow& row) {
                                                request.after_client = row.client;
                                                request.after_id = row.id;
                                              });
  if (!rows) return std::unexpected(rows.error());
  std::vector<ObjectRow> out;
  for (message::ObjectRow& row : *rows) {
    const auto client = client_of.find(row.client);
    if (client == client_of.end()) continue;  // this program, or newer than the list of clients
    ObjectRow one = shown(std::move(row), *client->second);
    if (is_wanted(source, one.device)) out.push_back(std::move(one));
  }
  return out;
}

Result<std::vector<ClientRow>> fetch_clients(const Source& source) {
  auto link = connect(source);
  if (!link) return std::unexpected(link.error());
  return clients_on(**link, source);
}

Result<std::vector<UserRow>> fetch_users(const Source& source) {
  auto link = connect(source);
  if (!link) return std::unexpected(link.error());
  return fetch_rows<message::UserRows>(
      **link, Op::list_users, message::ListUsers{},
      [](message::ListUsers& request, const UserRow& row) { request.after = row.key(); });
}

Result<std::vector<message::HistoryRow>> fetch_history(const Source& source, message::ListHistory request) {
  auto link = connect(source);
  if (!link) return std::unexpected(link.error());
  auto rows = fetch_rows<message::HistoryRows>(
      **link, Op::list_history, request,
      [](message::ListHistory& next, const message::HistoryRow& row) { next.after = row.number; });
  if (!rows || !rows->empty() || request.pid == 0) return rows;
  return fetch_history(source, {.qpn = static_cast<uint32_t>(request.pid)});
}

Result<std::vector<PeerRow>> fetch_peers(const Source& source) {
  auto link = connect(source);
  if (!link) return std::unexpected(link.error());
  const auto devices = devices_on(**link, source);
  if (!devices) return std::unexpected(devices.error());
  std::vector<PeerRow> rows;
  for (const DeviceRow& device : *devices) {
    auto peers = fetch_rows<message::PeerRows>(
        **link, Op::list_peers, message::ListPeers{.device = device.name},
        [](message::ListPeers& request, const message::PeerRow& row) { request.after = row.peer; });
    if (!peers) return std::unexpected(peers.error());
    for (message::PeerRow& row : *peers) rows.push_back({device.name, std::move(row)});
  }
  return rows;
}

Result<std::vector<EngineRow>> fetch_engines(const Source& source) {
  auto link = connect(source);
  if (!link) return std::unexpected(link.error());
  auto reply = (*link)->call<message::EngineRows>(Op::list_engines, message::Empty{});
  if (!reply) return std::unexpected(reply.error());
  return std::move(reply->rows);
}

Result<std::vector<FaultRow>> fetch_faults(const Source& source) {
  auto link = connect(source);
  if (!link) return std::unexpected(link.error());
  return fetch_rows<message::FaultRows>(
      **link, Op::list_faults, message::ListFaults{},
      [](message::ListFaults& request, const FaultRow& row) { request.after = row.number; });
}

Result<message::AddedFaults> add_faults(const Source& source, const message::AddFaults& request) {
  constexpr std::size_t kMost = message::kMaxPacket - 4096;
  if (request.rules.size() > kMost) {
    return fail(E2BIG,
                fmt::format("the fault rules in {} have {} bytes, and {} at most can be added at once; split them",
                            request.source, request.rules.size(), kMost));
  }
  auto link = connect(source);
  if (!link) return std::unexpected(link.error());
  return (*link)->call<message::AddedFaults>(Op::add_faults, request);
}

Result<void> clear_faults(const Source& source, uint32_t number) {
  auto link = connect(source);
  if (!link) return std::unexpected(link.error());
  auto done = (*link)->call<message::Empty>(Op::clear_faults, message::ClearFaults{.number = number});
  if (!done) return std::unexpected(done.error());
  return {};
}

Result<RestartRow> fetch_restart(const Source& source) {
  auto link = connect(source);
  if (!link) return std::unexpected(link.error());
  return (*link)->call<RestartRow>(Op::restart, message::Empty{});
}

Result<metrics::State> fetch_state(const Source& source) {
  metrics::State state;
  std::vector<DeviceRow> devices;
  {
    auto link = connect(source);
    if (!link) return std::unexpected(link.error());
    state.version = (*link)->daemon_version();
    auto known = devices_on(**link, source);
    if (!known) return std::unexpected(known.error());
    devices = std::move(*known);
    auto clients = clients_on(**link, source);
    if (!clients) return std::unexpected(clients.error());
    state.clients = std::move(*clients);
  }
  auto counters = fetch_counters(source);
  if (!counters) return std::unexpected(counters.error());
  for (CounterRow& row : *counters) {
    const auto device = std::ranges::find(devices, row.device, &DeviceRow::name);
    if (device == devices.end()) continue;
    state.devices.push_back({.name = row.device,
                             .link_up = device->link_up,
                             .path_mtu_bytes = mtu_bytes(device->active_mtu),
                             .counters = std::move(row.counters)});
  }
  auto engines = fetch_engines(source);
  if (!engines) return std::unexpected(engines.error());
  state.engines = std::move(*engines);
  auto users = fetch_users(source);
  if (!users) return std::unexpected(users.error());
  state.users = std::move(*users);
  return state;
}

Result<std::vector<CounterRow>> fetch_counters(const Source& source) {
  auto devices = fetch_devices(source);
  if (!devices) return std::unexpected(devices.error());
  std::vector<CounterRow> out;
  for (const DeviceRow& device : *devices) {
    auto opened = client::DeviceLink::open(device.name, {.socket = source.socket});
    if (!opened) return std::unexpected(opened.error());
    auto counters = opened->link->call<message::Counters>(Op::counters, message::Empty{});
    if (!counters) return std::unexpected(counters.error());
    out.push_back({device.name, std::move(counters->values)});
  }
  return out;
}

}  // namespace uroce::cli
