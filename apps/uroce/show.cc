#include "uroce/show.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cm/address.h"
#include "uroce/names.h"
#include "uroce/table.h"

namespace uroce::cli {

namespace {

using Json = nlohmann::ordered_json;
using Cells = std::vector<std::vector<std::string>>;

constexpr bool kRight = true;

std::string text(uint64_t number) { return fmt::to_string(number); }
std::string hex(uint32_t number) { return fmt::format("{:#08x}", number); }

template <class Row>
std::string dump(const std::vector<Row>& rows, Json (*object)(const Row&)) {
  Json all = Json::array();
  for (const Row& row : rows) all.push_back(object(row));
  return all.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string addresses_of(const DeviceRow& row) {
  std::string out;
  for (const Gid& gid : row.gids) out += (out.empty() ? "" : ",") + cm::to_text(gid);
  return out;
}

bool connected(const QpRow& row) { return row.peer != Gid{}; }

}  // namespace

std::string to_table(const std::vector<DeviceRow>& rows) {
  Cells cells;
  for (const DeviceRow& r : rows) {
    cells.push_back({printable(r.name), printable(r.driver), r.link_up ? "up" : "down", text(mtu_bytes(r.active_mtu)),
                     text(r.engines), cm::to_text(r.mac), addresses_of(r)});
  }
  return table({{"DEVICE"}, {"DRIVER"}, {"LINK"}, {"MTU", kRight}, {"ENGINES", kRight}, {"MAC"}, {"ADDRESSES"}}, cells);
}

std::string to_table(const std::vector<QpRow>& rows) {
  Cells cells;
  for (const QpRow& r : rows) {
    cells.push_back({printable(r.device), hex(r.qpn), std::string(name(r.type)), std::string(name(r.state)),
                     text(r.client), connected(r) ? cm::to_text(r.peer) : "-", connected(r) ? hex(r.peer_qpn) : "-",
                     text(r.sq_psn), text(r.rq_psn), text(r.engine), text(r.outstanding), text(r.retransmissions)});
  }
  return table({{"DEVICE"},
                {"QPN"},
                {"TYPE"},
                {"STATE"},
                {"CLIENT", kRight},
                {"PEER"},
                {"PEER QPN"},
                {"SQ PSN", kRight},
                {"RQ PSN", kRight},
                {"ENGINE", kRight},
                {"OUTSTANDING", kRight},
                {"RESENT", kRight}},
               cells);
}

std::string to_table(const std::vector<MrRow>& rows) {
  Cells cells;
  for (const MrRow& r : rows) {
    cells.push_back(
        {printable(r.device), fmt::format("{:#010x}", r.key), bytes_text(r.length), name(r.access), text(r.client)});
  }
  return table({{"DEVICE"}, {"KEY"}, {"LENGTH", kRight}, {"ACCESS"}, {"CLIENT", kRight}}, cells);
}

std::string to_table(const std::vector<CqRow>& rows) {
  Cells cells;
  for (const CqRow& r : rows) cells.push_back({printable(r.device), text(r.id), text(r.entries), text(r.client)});
  return table({{"DEVICE"}, {"CQ", kRight}, {"ENTRIES", kRight}, {"CLIENT", kRight}}, cells);
}

std::string to_table(const std::vector<ClientRow>& rows) {
  Cells cells;
  for (const ClientRow& r : rows) {
    cells.push_back({text(r.id), fmt::to_string(r.pid), text(r.uid), r.device.empty() ? "-" : printable(r.device),
                     text(r.qps), text(r.cqs), text(r.srqs), text(r.mrs), bytes_text(r.queue_bytes),
                     bytes_text(r.registered_bytes), text(r.calls), text(r.errors), printable(r.command)});
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
                {"CALLS", kRight},
                {"ERRORS", kRight},
                {"COMMAND"}},
               cells);
}

std::string to_json(const std::vector<DeviceRow>& rows) {
  return dump<DeviceRow>(rows, [](const DeviceRow& r) {
    Json addresses = Json::array();
    for (const Gid& gid : r.gids) addresses.push_back(cm::to_text(gid));
    return Json{
        {"device", r.name},     {"driver", r.driver},        {"link_up", r.link_up},   {"mtu", mtu_bytes(r.active_mtu)},
        {"engines", r.engines}, {"mac", cm::to_text(r.mac)}, {"addresses", addresses}, {"max_qp", r.max_qp},
        {"max_cq", r.max_cq},   {"max_mr", r.max_mr},        {"max_srq", r.max_srq}};
  });
}

std::string to_json(const std::vector<QpRow>& rows) {
  return dump<QpRow>(rows, [](const QpRow& r) {
    return Json{{"device", r.device},
                {"qpn", r.qpn},
                {"type", name(r.type)},
                {"state", name(r.state)},
                {"client", r.client},
                {"peer", connected(r) ? Json(cm::to_text(r.peer)) : Json()},
                {"peer_qpn", connected(r) ? Json(r.peer_qpn) : Json()},
                {"sq_psn", r.sq_psn},
                {"rq_psn", r.rq_psn},
                {"engine", r.engine},
                {"outstanding", r.outstanding},
                {"retransmissions", r.retransmissions}};
  });
}

std::string to_json(const std::vector<MrRow>& rows) {
  return dump<MrRow>(rows, [](const MrRow& r) {
    return Json{
        {"device", r.device}, {"key", r.key}, {"length", r.length}, {"access", name(r.access)}, {"client", r.client}};
  });
}

std::string to_json(const std::vector<CqRow>& rows) {
  return dump<CqRow>(rows, [](const CqRow& r) {
    return Json{{"device", r.device}, {"id", r.id}, {"entries", r.entries}, {"client", r.client}};
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
                {"errors", r.errors}};
  });
}

}  // namespace uroce::cli
