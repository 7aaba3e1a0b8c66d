#include "daemon_source.h"

#include <net/if.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "client/fetch_rows.h"
#include "tree.h"

namespace uroce::run {

using message::Op;
using nldev::Table;

namespace {

/// Empty where the table is not one of the daemon's objects.
std::optional<message::Kind> kind_of(Table table) {
  switch (table) {
    case Table::pd: return message::Kind::pd;
    case Table::cq: return message::Kind::cq;
    case Table::qp: return message::Kind::qp;
    case Table::mr: return message::Kind::mr;
    case Table::srq: return message::Kind::srq;
    case Table::cm_id: return message::Kind::cm_id;
    case Table::ctx: break;
  }
  return std::nullopt;
}

bool listens(const nldev::Object& object) {
  return std::ranges::find(object.values, std::pair<std::string, std::string>("state", "LISTEN")) !=
         object.values.end();
}

}  // namespace

std::vector<nldev::Device> DaemonSource::devices() {
  std::vector<nldev::Device> out;
  for (const DeviceView& view : devices_.views()) {
    const std::string interface = interface_of(view.guid);
    const bool up = view.port.state == IBV_PORT_ACTIVE;
    constexpr uint8_t kLinkUp = 5, kPolling = 2;
    out.push_back({.name = view.name,
                   .firmware = view.firmware,
                   .guid = view.guid,
                   .capabilities = view.capabilities,
                   .port_capabilities = view.port.port_cap_flags,
                   .port_state = static_cast<uint8_t>(up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN),
                   .physical_state = up ? kLinkUp : kPolling,
                   .interface = interface,
                   .interface_index = if_nametoindex(interface.c_str())});
  }
  return out;
}

std::expected<client::DaemonLink*, int> DaemonSource::link() {
  if (link_ == nullptr || link_->lost()) {
    auto made = client::DaemonLink::of_program({});
    if (!made) return std::unexpected(made.error().code);
    opened_.clear();
    link_ = std::move(*made);
  }
  return link_.get();
}

void DaemonSource::disconnect() {
  opened_.clear();
  link_.reset();
}

std::expected<std::map<uint32_t, message::ClientRow>, int> DaemonSource::clients() {
  const auto daemon = link();
  if (!daemon) return std::unexpected(daemon.error());
  auto rows = client::fetch_rows<message::ClientRows>(**daemon, Op::list_clients, message::ListClients{},
                                                      [](auto& next, const auto& row) { next.after = row.id; });
  if (!rows) return std::unexpected(rows.error().code);
  std::map<uint32_t, message::ClientRow> out;
  for (message::ClientRow& row : *rows) {
    if (row.pid != getpid()) out.emplace(row.id, std::move(row));
  }
  return out;
}

std::expected<std::vector<nldev::Object>, int> DaemonSource::objects(Table table, const nldev::Device& device) {
  const auto programs = clients();
  if (!programs) return std::unexpected(programs.error());
  std::vector<nldev::Object> out;
  const auto kind = kind_of(table);
  if (!kind) {
    for (const auto& [id, row] : *programs) {
      if (row.device == device.name) out.push_back({id, id, static_cast<uint32_t>(row.pid), {}});
    }
    return out;
  }
  message::ListObjects request{.kind = *kind};
  for (bool more = true; more;) {
    auto reply = link_->call<message::ObjectRows>(Op::list_objects, request);
    if (!reply) return std::unexpected(reply.error().code);
    more = reply->more && !reply->rows.empty();
    for (message::ObjectRow& row : reply->rows) {
      request.after_client = row.client;
      request.after_id = row.id;
      const auto program = programs->find(row.client);
      if (program == programs->end()) continue;  // newer than the list
      nldev::Object object{row.client, row.id, static_cast<uint32_t>(program->second.pid), std::move(row.values)};
      // Ids of a program are on several devices.
      const auto named = std::ranges::find(object.values, "device", [](const auto& value) { return value.first; });
      const std::string& place = named == object.values.end() ? program->second.device : named->second;
      // One that listens on all addresses is on all devices.
      if (place == device.name || (place.empty() && listens(object))) out.push_back(std::move(object));
    }
  }
  return out;
}

std::expected<nldev::Counters, int> DaemonSource::own_counters(const std::string& device) {
  if (const auto daemon = link(); !daemon) return std::unexpected(daemon.error());
  auto& opened = opened_[device];
  if (opened == nullptr) {
    auto made = client::DeviceLink::open(device, {});
    if (!made) return std::unexpected(made.error().code);
    opened = std::move(made->link);
  }
  auto reply = opened->call<message::Counters>(Op::counters, message::Empty{});
  if (!reply) return std::unexpected(reply.error().code);
  return std::move(reply->values);
}

std::expected<nldev::Counters, int> DaemonSource::counters(const nldev::Device& device) {
  const auto values = own_counters(device.name);
  if (!values) return std::unexpected(values.error());
  return nldev::hardware_counters(*values);
}

}  // namespace uroce::run
