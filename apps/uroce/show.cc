#include "uroce/show.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "net/address.h"
#include "uroce/table.h"
#include "uroce/values.h"

namespace uroce::cli {

namespace {

using Json = nlohmann::ordered_json;
using Cells = std::vector<std::vector<std::string>>;

std::string text(uint64_t number) { return fmt::to_string(number); }

template <class Row>
std::string dump(const std::vector<Row>& rows, Json (*object)(const Row&)) {
  Json all = Json::array();
  for (const Row& row : rows) all.push_back(object(row));
  return all.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json traffic_json(const message::Traffic& traffic) {
  return Json{{"rx_packets", traffic.rx_packets},
              {"rx_bytes", traffic.rx_bytes},
              {"tx_packets", traffic.tx_packets},
              {"tx_bytes", traffic.tx_bytes}};
}

/// The owner of the addresses.
std::string source_of(const DeviceRow& row) {
  return row.kernel_interface.empty() ? "own" : "kernel " + printable(row.kernel_interface);
}

std::string sending_of(const DeviceRow& row) {
  switch (row.sending) {
    case Sending::super_frames: return "super-frames";
    case Sending::single_by_kernel: return "single frames (kernel without UDP segmentation)";
    case Sending::single_refused: return "single frames (super-frames refused)";
    case Sending::single_by_choice: return "single frames (super_frames=no)";
    case Sending::by_udp_socket: return "UDP socket";
    case Sending::by_driver: break;
  }
  return row.driver;
}

std::string addresses_of(const DeviceRow& row) {
  std::string out;
  for (const Gid& gid : row.gids) {
    if (gid != Gid{}) out += (out.empty() ? "" : ",") + net::to_text(gid);
  }
  return out;
}

const std::string* value_of(const ObjectRow& row, std::string_view name) {
  const auto found = std::ranges::find_if(row.values, [&](const auto& value) { return value.first == name; });
  return found == row.values.end() ? nullptr : &found->second;
}

/// "sq_psn" as a title: "SQ PSN".
std::string title_of(std::string_view name) {
  std::string out = printable(name);
  for (char& c : out) c = c == '_' ? ' ' : c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return out;
}

}  // namespace

std::string to_table(const std::vector<DeviceRow>& rows) {
  Cells cells;
  for (const DeviceRow& r : rows) {
    cells.push_back({printable(r.name), printable(r.driver), r.link_up ? "up" : "down", text(mtu_bytes(r.active_mtu)),
                     text(r.engines), printable(sending_of(r)), net::to_text(r.mac), source_of(r), addresses_of(r)});
  }
  return table({{"DEVICE"},
                {"DRIVER"},
                {"LINK"},
                {"MTU", kRight},
                {"ENGINES", kRight},
                {"SENDING"},
                {"MAC"},
                {"SOURCE"},
                {"ADDRESSES"}},
               cells);
}

std::string to_table(const std::vector<ObjectRow>& rows, std::size_t width) {
  std::vector<std::string> names;
  for (const ObjectRow& r : rows) {
    for (const auto& [name, value] : r.values) {
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    }
  }
  std::vector<std::string> titles;
  for (const std::string& name : names) titles.push_back(title_of(name));
  std::vector<Column> columns{{"DEVICE"}, {"CLIENT", kRight}, {"PID", kRight}, {"COMMAND"}};
  const std::size_t first = columns.size();
  for (std::size_t i = 0; i < names.size(); ++i) {
    const bool numbers = std::ranges::all_of(rows, [&](const ObjectRow& r) {
      const auto* value = value_of(r, names[i]);
      return value == nullptr || whole_number<uint64_t>(*value);
    });
    columns.push_back({titles[i], numbers});
  }
  Cells cells;
  for (const ObjectRow& r : rows) {
    auto& line = cells.emplace_back(std::vector<std::string>{
        r.device.empty() ? "-" : printable(r.device), text(r.client), fmt::to_string(r.pid), printable(r.command)});
    for (const std::string& name : names) {
      const auto* value = value_of(r, name);
      line.push_back(value == nullptr || value->empty() ? "-" : printable(*value));
    }
  }
  // The daemon's order is that of importance. The first value, which names the object, stays.
  Fit fit{.columns = width, .spare = {1}};
  for (std::size_t i = columns.size(); i > first + 1; --i) fit.spare.push_back(i - 1);
  return table(columns, cells, fit);
}

std::string to_table(const std::vector<ClientRow>& rows, std::size_t width) {
  Cells cells;
  for (const ClientRow& r : rows) {
    cells.push_back({text(r.id), fmt::to_string(r.pid), text(r.uid), r.device.empty() ? "-" : printable(r.device),
                     text(r.qps), text(r.cqs), text(r.srqs), text(r.mrs), bytes_text(r.queue_bytes),
                     bytes_text(r.registered_bytes), bytes_text(r.traffic.rx_bytes), bytes_text(r.traffic.tx_bytes),
                     text(r.calls), text(r.errors), printable(r.command)});
  }
  return table({{"CLIENT", kRight},
                {"PID", kRight},
                {"UID", kRight},
                {"DEVICE"},
                {"QP", kRight},
                {"CQ", kRight},
                {"SRQ", kRight},
                {"MR", kRight},
                {"QUEUES", kRight},
                {"REGISTERED", kRight},
                {"RECEIVED", kRight},
                {"SENT", kRight},
                {"CALLS", kRight},
                {"ERRORS", kRight},
                {"COMMAND"}},
               cells, {.columns = width, .spare = {6, 12, 13, 5, 2, 8, 9}});
}

std::string to_table(const std::vector<UserRow>& rows) {
  Cells cells;
  for (const UserRow& r : rows) {
    for (const message::Budget& b : r.budgets) {
      const bool bytes = b.resource.ends_with("_bytes");
      cells.push_back({text(r.uid), r.privileged ? "yes" : "no", printable(b.resource),
                       bytes ? bytes_text(b.used) : text(b.used), bytes ? bytes_text(b.limit) : text(b.limit)});
    }
    const auto count = [&](const char* what, std::string value) {
      cells.push_back({text(r.uid), r.privileged ? "yes" : "no", what, std::move(value), "-"});
    };
    count("refused calls", text(r.refusals));
    count("bytes received", bytes_text(r.traffic.rx_bytes));
    count("bytes sent", bytes_text(r.traffic.tx_bytes));
  }
  return table({{"UID", kRight}, {"PRIVILEGED"}, {"RESOURCE"}, {"USED", kRight}, {"LIMIT", kRight}}, cells);
}

std::string to_table(const std::vector<PeerRow>& rows) {
  std::vector<std::string> titles;
  if (!rows.empty()) {
    for (const auto& [name, count] : rows.front().peer.guesses) titles.push_back(title_of(name));
  }
  std::vector<Column> columns{{"DEVICE"}, {"PEER"}};
  for (const std::string& title : titles) columns.push_back({title, kRight});
  columns.push_back({"LAST", kRight});
  Cells cells;
  for (const PeerRow& r : rows) {
    auto& line = cells.emplace_back(std::vector<std::string>{printable(r.device), net::to_text(r.peer.peer)});
    for (const auto& [name, count] : r.peer.guesses) line.push_back(text(count));
    line.push_back(age_text(r.peer.last_ms));
  }
  return table(columns, cells);
}

std::string to_table(const RestartRow& row) {
  Cells cells;
  if (row.last.empty()) cells.push_back({"last", "this daemon took over from no other"});
  for (const auto& [name, value] : row.last) cells.push_back({"last " + printable(name), printable(value)});
  if (row.obstacles.empty()) cells.push_back({"next", row.kept ? "seamless" : "seamless by uroced --replace"});
  for (const std::string& obstacle : row.obstacles)
    cells.push_back({"next", "ends connections: " + printable(obstacle)});
  return table({{"RESTART"}, {"VALUE"}}, cells);
}

std::string to_table(const std::vector<FaultRow>& rows, std::size_t width) {
  Cells cells;
  for (const FaultRow& r : rows) {
    cells.push_back({text(r.number), text(r.hits), text(r.chosen), text(r.overflow), text(r.seed), printable(r.text)});
  }
  return table(
      {{"RULE", kRight}, {"HITS", kRight}, {"CHOSEN", kRight}, {"OVERFLOW", kRight}, {"SEED", kRight}, {"TEXT"}}, cells,
      {.columns = width, .spare = {3, 2}});
}

std::string to_json(const std::vector<DeviceRow>& rows) {
  return dump<DeviceRow>(rows, [](const DeviceRow& r) {
    Json addresses = Json::array();
    for (const Gid& gid : r.gids) {
      if (gid != Gid{}) addresses.push_back(net::to_text(gid));
    }
    return Json{{"device", r.name},           {"driver", r.driver},
                {"link_up", r.link_up},       {"mtu", mtu_bytes(r.active_mtu)},
                {"engines", r.engines},       {"sending", sending_of(r)},
                {"mac", net::to_text(r.mac)}, {"source", source_of(r)},
                {"addresses", addresses},     {"max_qp", r.max_qp},
                {"max_cq", r.max_cq},         {"max_mr", r.max_mr},
                {"max_srq", r.max_srq}};
  });
}

std::string to_json(const std::vector<ObjectRow>& rows) {
  return dump<ObjectRow>(rows, [](const ObjectRow& r) {
    Json object{{"device", r.device.empty() ? Json() : Json(r.device)},
                {"client", r.client},
                {"pid", r.pid},
                {"command", r.command}};
    for (const auto& [name, value] : r.values) {
      const auto number = whole_number<uint64_t>(value);
      object[name] = number ? Json(*number) : value.empty() ? Json() : Json(value);
    }
    return object;
  });
}

std::string to_json(const std::vector<ClientRow>& rows) {
  return dump<ClientRow>(rows, [](const ClientRow& r) {
    return Json{{"client", r.id},
                {"pid", r.pid},
                {"uid", r.uid},
                {"command", r.command},
                {"device", r.device.empty() ? Json() : Json(r.device)},
                {"qps", r.qps},
                {"cqs", r.cqs},
                {"srqs", r.srqs},
                {"mrs", r.mrs},
                {"pds", r.pds},
                {"ahs", r.ahs},
                {"queue_bytes", r.queue_bytes},
                {"registered_bytes", r.registered_bytes},
                {"calls", r.calls},
                {"errors", r.errors},
                {"traffic", traffic_json(r.traffic)}};
  });
}

std::string to_json(const std::vector<UserRow>& rows) {
  return dump<UserRow>(rows, [](const UserRow& r) {
    Json budgets = Json::object();
    for (const message::Budget& b : r.budgets) budgets[b.resource] = {{"used", b.used}, {"limit", b.limit}};
    return Json{{"uid", r.uid},
                {"privileged", r.privileged},
                {"refusals", r.refusals},
                {"budgets", budgets},
                {"traffic", traffic_json(r.traffic)}};
  });
}

std::string to_json(const std::vector<PeerRow>& rows) {
  return dump<PeerRow>(rows, [](const PeerRow& r) {
    Json guesses = Json::object();
    for (const auto& [name, count] : r.peer.guesses) guesses[name] = count;
    return Json{
        {"device", r.device}, {"peer", net::to_text(r.peer.peer)}, {"guesses", guesses}, {"last_ms", r.peer.last_ms}};
  });
}

std::string to_json(const std::vector<FaultRow>& rows) {
  return dump<FaultRow>(rows, [](const FaultRow& r) {
    return Json{{"rule", r.number},       {"hits", r.hits}, {"chosen", r.chosen},
                {"overflow", r.overflow}, {"seed", r.seed}, {"text", r.text}};
  });
}

std::string to_json(const RestartRow& row) {
  Json last = row.last.empty() ? Json() : Json::object();
  for (const auto& [name, value] : row.last) {
    const auto number = whole_number<uint64_t>(value);
    last[name] = number ? Json(*number) : Json(value);
  }
  const Json next{
      {"seamless", row.obstacles.empty()}, {"kept_by_service_manager", row.kept}, {"obstacles", row.obstacles}};
  return Json::array({Json{{"last", last}, {"next", next}}}).dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace uroce::cli
