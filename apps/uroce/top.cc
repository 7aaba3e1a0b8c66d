#include "uroce/top.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string_view>
#include <utility>

#include "uroce/show.h"
#include "uroce/table.h"
#include "uroce/values.h"

namespace uroce::cli {

namespace {

using Cells = std::vector<std::vector<std::string>>;

/// Packets are counted by PSNs, which have 24 bits.
constexpr uint64_t kPsns = uint64_t{1} << 24;

double seconds_between(const Sample& before, const Sample& after) {
  return before.counters.empty() ? 0 : std::chrono::duration<double>(after.at - before.at).count();
}

std::string gbits(double bytes) { return fmt::format("{:.2f}", bytes * 8 / 1e9); }

uint64_t value_of(const EngineRow& row, std::string_view name) {
  const auto found = std::ranges::find_if(row.values, [&](const auto& value) { return value.first == name; });
  return found == row.values.end() ? 0 : found->second;
}

std::string engines_table(const Sample& before, const Sample& after, std::size_t width) {
  const double seconds = seconds_between(before, after);
  Cells cells;
  for (const EngineRow& row : after.engines) {
    const auto then = std::ranges::find(before.engines, row.engine, &EngineRow::engine);
    const auto rate = [&](std::string_view name) {
      const uint64_t now = value_of(row, name), was = then == before.engines.end() ? 0 : value_of(*then, name);
      return seconds > 0 && then != before.engines.end() && now >= was ? static_cast<double>(now - was) / seconds : 0;
    };
    cells.push_back({fmt::to_string(row.engine), fmt::format("{:.0f} %", std::min(rate("busy_ns") / 1e7, 100.0)),
                     short_number(rate("rounds")), short_number(rate("rx_packets")), short_number(rate("tx_packets")),
                     fmt::to_string(value_of(row, "waiting_qps")), fmt::to_string(value_of(row, "waiting_frames")),
                     fmt::to_string(value_of(row, "parked_frames"))});
  }
  return table({{"ENGINE", kRight},
                {"BUSY", kRight},
                {"ROUNDS/s", kRight},
                {"RX pkt/s", kRight},
                {"TX pkt/s", kRight},
                {"QPs WAITING", kRight},
                {"FRAMES", kRight},
                {"PARKED", kRight}},
               cells, {.columns = width, .spare = {2, 7, 6}});
}

std::string devices_table(const Sample& before, const Sample& after, std::size_t width) {
  Cells cells;
  for (const DeviceRates& device : rates_between(before, after)) {
    double drops = 0;
    for (const Rate& rate : device.rates) drops += rate.name.starts_with("drop_") ? rate.per_second : 0;
    cells.push_back({printable(device.device), gbits(rate_of(device, "rx_bytes")), gbits(rate_of(device, "tx_bytes")),
                     short_number(rate_of(device, "rx_packets")), short_number(rate_of(device, "tx_packets")),
                     short_number(rate_of(device, "send_completions")),
                     short_number(rate_of(device, "recv_completions")),
                     short_number(rate_of(device, "error_completions")),
                     short_number(rate_of(device, "retransmitted_packets")), short_number(drops)});
  }
  return table({{"DEVICE"},
                {"RX Gb/s", kRight},
                {"TX Gb/s", kRight},
                {"RX pkt/s", kRight},
                {"TX pkt/s", kRight},
                {"SENDS/s", kRight},
                {"RECVS/s", kRight},
                {"ERRORS/s", kRight},
                {"RESENT/s", kRight},
                {"DROPS/s", kRight}},
               cells, {.columns = width, .spare = {6, 5, 4, 3}});
}

std::string_view field(const ObjectRow& row, std::string_view name) {
  const auto found = std::ranges::find_if(row.values, [&](const auto& value) { return value.first == name; });
  return found == row.values.end() ? std::string_view() : std::string_view(found->second);
}

struct BusyQp {
  const ObjectRow* row = nullptr;
  double sent = 0, received = 0;  ///< packets a second
};

using QpKey = std::tuple<uint32_t, std::string_view, std::string_view>;
QpKey key_of(const ObjectRow& row) { return {row.client, field(row, "qpn"), field(row, "type")}; }

/// The busiest first. Queue pairs without PSNs, which are another user's to see, are left out.
std::vector<BusyQp> busiest(const Sample& before, const Sample& after) {
  const double seconds = seconds_between(before, after);
  std::map<QpKey, const ObjectRow*> known;
  for (const ObjectRow& row : before.qps) known[key_of(row)] = &row;
  std::vector<BusyQp> out;
  for (const ObjectRow& row : after.qps) {
    if (!whole_number<uint64_t>(field(row, "sq_psn"))) continue;
    BusyQp qp{.row = &row};
    const auto then = known.find(key_of(row));
    const auto rate = [&](std::string_view name) {
      if (then == known.end() || seconds <= 0) return 0.0;
      const auto now = whole_number<uint64_t>(field(row, name)),
                 was = whole_number<uint64_t>(field(*then->second, name));
      return now && was ? static_cast<double>((*now + kPsns - *was % kPsns) % kPsns) / seconds : 0.0;
    };
    qp.sent = rate("sq_psn");
    qp.received = rate("rq_psn");
    out.push_back(qp);
  }
  std::ranges::stable_sort(out, std::greater{}, [](const BusyQp& qp) { return qp.sent + qp.received; });
  return out;
}

std::string qps_table(const std::vector<BusyQp>& qps, std::size_t width) {
  Cells cells;
  const auto text = [](const ObjectRow& row, std::string_view name) {
    const std::string_view found = field(row, name);
    return found.empty() ? std::string("-") : printable(found);
  };
  for (const BusyQp& qp : qps) {
    const ObjectRow& row = *qp.row;
    cells.push_back({printable(row.device), fmt::to_string(row.client), text(row, "qpn"), text(row, "type"),
                     text(row, "state"), text(row, "engine"), short_number(qp.sent), short_number(qp.received),
                     text(row, "srtt_us"), text(row, "window"), text(row, "rate_mbps"), text(row, "resent_timeout"),
                     text(row, "dgid")});
  }
  return table({{"DEVICE"},
                {"CLIENT", kRight},
                {"QPN"},
                {"TYPE"},
                {"STATE"},
                {"ENGINE", kRight},
                {"TX psn/s", kRight},
                {"RX psn/s", kRight},
                {"RTT us", kRight},
                {"WINDOW", kRight},
                {"Mb/s", kRight},
                {"TIMEOUTS", kRight},
                {"PEER"}},
               cells, {.columns = width, .spare = {10, 9, 11, 5, 8, 3, 1}});
}

/// A connection's rates a second.
struct BusyClient {
  const ClientRow* row = nullptr;
  double rx_bytes = 0, tx_bytes = 0, rx_packets = 0, tx_packets = 0;
};

/// Those that move most bytes first, then those with most queue pairs.
std::vector<BusyClient> busiest_clients(const Sample& before, const Sample& after) {
  const double seconds = seconds_between(before, after);
  std::map<uint32_t, const ClientRow*> known;
  for (const ClientRow& row : before.clients) known[row.id] = &row;
  std::vector<BusyClient> out;
  for (const ClientRow& row : after.clients) {
    const auto then = known.find(row.id);
    const auto rate = [&](uint64_t message::Traffic::* value) {
      if (then == known.end() || seconds <= 0 || row.traffic.*value < then->second->traffic.*value) return 0.0;
      return static_cast<double>(row.traffic.*value - then->second->traffic.*value) / seconds;
    };
    out.push_back({.row = &row,
                   .rx_bytes = rate(&message::Traffic::rx_bytes),
                   .tx_bytes = rate(&message::Traffic::tx_bytes),
                   .rx_packets = rate(&message::Traffic::rx_packets),
                   .tx_packets = rate(&message::Traffic::tx_packets)});
  }
  std::ranges::stable_sort(out, std::greater{}, [](const BusyClient& client) {
    return std::pair(client.rx_bytes + client.tx_bytes, client.row->qps);
  });
  return out;
}

std::string clients_table(const std::vector<BusyClient>& clients, std::size_t width) {
  Cells cells;
  for (const BusyClient& client : clients) {
    const ClientRow& row = *client.row;
    cells.push_back({fmt::to_string(row.id), fmt::to_string(row.pid), fmt::to_string(row.uid),
                     row.device.empty() ? "-" : printable(row.device), fmt::to_string(row.qps), fmt::to_string(row.mrs),
                     bytes_text(row.registered_bytes), gbits(client.rx_bytes), gbits(client.tx_bytes),
                     short_number(client.rx_packets), short_number(client.tx_packets), printable(row.command)});
  }
  return table({{"CLIENT", kRight},
                {"PID", kRight},
                {"UID", kRight},
                {"DEVICE"},
                {"QP", kRight},
                {"MR", kRight},
                {"REGISTERED", kRight},
                {"RX Gb/s", kRight},
                {"TX Gb/s", kRight},
                {"RX pkt/s", kRight},
                {"TX pkt/s", kRight},
                {"COMMAND"}},
               cells, {.columns = width, .spare = {6, 5, 2, 10, 9}});
}

std::string_view first_lines(std::string_view text, std::size_t lines) {
  std::size_t end = 0;
  for (std::size_t line = 0; line < lines && end < text.size(); ++line) end = text.find('\n', end) + 1;
  return text.substr(0, end);
}

}  // namespace

std::string top_view(const Sample& before, const Sample& after, ScreenSize size) {
  std::string view = engines_table(before, after, size.columns) + '\n' + devices_table(before, after, size.columns);
  uint64_t all_qps = 0;
  for (const ClientRow& row : after.clients) all_qps += row.qps;
  std::vector<BusyQp> qps = busiest(before, after);
  const auto used = static_cast<std::size_t>(std::ranges::count(view, '\n'));
  if (size.lines != 0) {
    // Half of what is left, without the titles, is for connections.
    constexpr std::size_t kTitles = 6;
    const std::size_t left = size.lines > used + kTitles ? size.lines - used - kTitles : 0;
    if (qps.size() > (left + 1) / 2) qps.resize((left + 1) / 2);
  }
  const char* why = all_qps > kMostQpsOfTop      ? "; too many to ask for each"
                    : qps.empty() && all_qps > 0 ? "; rates are for root and the daemon's user to see"
                                                 : "";
  view += fmt::format("\n{} queue pairs{}\n", all_qps, why);
  if (!qps.empty()) view += qps_table(qps, size.columns);
  view += fmt::format("\n{} connections\n", after.clients.size()) +
          clients_table(busiest_clients(before, after), size.columns);
  view = cut_lines(view, size.columns);
  return size.lines == 0 ? view : std::string(first_lines(view, size.lines));
}

}  // namespace uroce::cli
