#include "uroce/fetch.h"

#include <fmt/format.h>
#include <unistd.h>

#include <uroce/daemon.h>
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <iterator>
#include <map>

#include "client/daemon_link.h"
#include "client/device_link.h"
#include "message/connection.h"
#include "message/device_messages.h"
#include "uroce/values.h"

namespace uroce::cli {

namespace {

using client::DaemonLink;
using message::Op;

Result<std::unique_ptr<DaemonLink>> connect(const Source& source) {
  return DaemonLink::open({.socket = source.socket});
}

/// The devices that the source names. Errors: ENODEV.
Result<std::vector<DeviceRow>> devices_on(const DaemonLink& link, const Source& source) {
  std::vector<DeviceRow> devices(link.devices().begin(), link.devices().end());
  if (source.device.empty()) return devices;
  std::erase_if(devices, [&](const DeviceRow& one) { return one.name != source.device; });
  if (!devices.empty()) return devices;
  return fail(ENODEV, fmt::format("unknown device '{}'; `uroce devices` lists them", source.device));
}

Result<std::vector<ClientRow>> clients_on(DaemonLink& link, const Source& source) {
  if (auto known = devices_on(link, source); !known) return std::unexpected(known.error());
  std::vector<ClientRow> rows;
  for (bool more = true; more;) {
    auto reply =
        link.call<message::ClientRows>(Op::list_clients, message::ListClients{rows.empty() ? 0 : rows.back().id});
    if (!reply) return std::unexpected(reply.error());
    more = reply->more && !reply->rows.empty();
    std::ranges::move(reply->rows, std::back_inserter(rows));
  }
  std::erase_if(rows, [&](const ClientRow& row) {
    return (row.pid == getpid() && !source.own) || (!source.device.empty() && row.device != source.device);
  });
  return rows;
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
  auto clients = clients_on(**link, source);
  if (!clients) return std::unexpected(clients.error());
  std::map<uint32_t, std::string> device_of;
  for (const ClientRow& row : *clients) device_of[row.id] = row.device;

  std::vector<ObjectRow> out;
  message::ListObjects request{.kind = kind};
  for (bool more = true; more;) {
    auto reply = (*link)->call<message::ObjectRows>(Op::list_objects, request);
    if (!reply) return std::unexpected(reply.error());
    for (message::ObjectRow& row : reply->rows) {
      request.after_client = row.client;
      request.after_id = row.id;
      const auto device = device_of.find(row.client);
      if (device == device_of.end()) continue;  // a client of another device, or newer than the list of clients
      ObjectRow& shown = out.emplace_back(ObjectRow{.device = device->second, .client = row.client});
      for (auto& [name, value] : row.values) shown.values.emplace_back(name, readable(name, std::move(value)));
    }
    more = reply->more && !reply->rows.empty();
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
  std::vector<UserRow> rows;
  for (bool more = true; more;) {
    const uint64_t after = rows.empty() ? 0 : rows.back().key();
    auto reply = (*link)->call<message::UserRows>(Op::list_users, message::ListUsers{after});
    if (!reply) return std::unexpected(reply.error());
    more = reply->more && !reply->rows.empty();
    std::ranges::move(reply->rows, std::back_inserter(rows));
  }
  return rows;
}

Result<std::vector<message::HistoryRow>> fetch_history(const Source& source, message::ListHistory request) {
  auto link = connect(source);
  if (!link) return std::unexpected(link.error());
  std::vector<message::HistoryRow> rows;
  for (bool more = true; more;) {
    auto reply = (*link)->call<message::HistoryRows>(Op::list_history, request);
    if (!reply) return std::unexpected(reply.error());
    more = reply->more && !reply->rows.empty();
    if (more) request.after = reply->rows.back().number;
    std::ranges::move(reply->rows, std::back_inserter(rows));
  }
  if (!rows.empty() || request.pid == 0) return rows;
  return fetch_history(source, {.qpn = static_cast<uint32_t>(request.pid)});
}

Result<std::vector<PeerRow>> fetch_peers(const Source& source) {
  auto link = connect(source);
  if (!link) return std::unexpected(link.error());
  const auto devices = devices_on(**link, source);
  if (!devices) return std::unexpected(devices.error());
  std::vector<PeerRow> rows;
  for (const DeviceRow& device : *devices) {
    message::ListPeers request{.device = device.name};
    for (bool more = true; more;) {
      auto reply = (*link)->call<message::PeerRows>(Op::list_peers, request);
      if (!reply) return std::unexpected(reply.error());
      more = reply->more && !reply->rows.empty();
      if (more) request.after = reply->rows.back().peer;
      for (message::PeerRow& row : reply->rows) rows.push_back({device.name, std::move(row)});
    }
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
