#include "uroce/rates.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

#include "uroce/show.h"
#include "uroce/table.h"

namespace uroce::cli {

namespace {

uint64_t value_before(const Sample& before, const std::string& device, const std::string& counter) {
  const auto row = std::ranges::find(before.counters, device, &CounterRow::device);
  if (row == before.counters.end()) return 0;
  const auto found = std::ranges::find_if(row->counters, [&](const auto& named) { return named.first == counter; });
  return found == row->counters.end() ? 0 : found->second;
}

}  // namespace

std::vector<DeviceRates> rates_between(const Sample& before, const Sample& after) {
  const double seconds = std::chrono::duration<double>(after.at - before.at).count();
  const bool measured = !before.counters.empty() && seconds > 0;
  std::vector<DeviceRates> out;
  for (const CounterRow& row : after.counters) {
    DeviceRates device{row.device, {}};
    for (const auto& [name, total] : row.counters) {
      const uint64_t then = value_before(before, row.device, name);
      const uint64_t more = total >= then ? total - then : total;
      device.rates.push_back({name, total, measured ? static_cast<double>(more) / seconds : 0});
    }
    out.push_back(std::move(device));
  }
  return out;
}

double rate_of(const DeviceRates& device, std::string_view counter) {
  const auto found = std::ranges::find(device.rates, counter, &Rate::name);
  return found == device.rates.end() ? 0 : found->per_second;
}

std::string rates_table(const std::vector<DeviceRates>& devices, bool all) {
  std::vector<std::vector<std::string>> cells;
  for (const DeviceRates& device : devices) {
    for (const Rate& rate : device.rates) {
      if (rate.total == 0 && !all) continue;
      cells.push_back(
          {printable(device.device), printable(rate.name), fmt::to_string(rate.total), short_number(rate.per_second)});
    }
  }
  return table({{"DEVICE"}, {"COUNTER"}, {"TOTAL", kRight}, {"PER SECOND", kRight}}, cells);
}

std::string rates_json(const std::vector<DeviceRates>& devices) {
  using Json = nlohmann::ordered_json;
  Json all = Json::array();
  for (const DeviceRates& device : devices) {
    Json counters = Json::object(), rates = Json::object();
    for (const Rate& rate : device.rates) {
      counters[rate.name] = rate.total;
      rates[rate.name] = rate.per_second;
    }
    all.push_back(Json{{"device", device.device}, {"counters", counters}, {"per_second", rates}});
  }
  return all.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string top_view(const Sample& before, const Sample& after, std::size_t lines) {
  std::vector<std::vector<std::string>> cells;
  const auto gbits = [](double bytes) { return fmt::format("{:.2f}", bytes * 8 / 1e9); };
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
  std::string view = table({{"DEVICE"},
                            {"RX Gb/s", kRight},
                            {"TX Gb/s", kRight},
                            {"RX pkt/s", kRight},
                            {"TX pkt/s", kRight},
                            {"SENDS/s", kRight},
                            {"RECVS/s", kRight},
                            {"ERRORS/s", kRight},
                            {"RESENT/s", kRight},
                            {"DROPS/s", kRight}},
                           cells);
  std::vector<ClientRow> clients = after.clients;
  std::ranges::stable_sort(clients, std::greater{}, &ClientRow::qps);
  view += fmt::format("\n{} connections\n", clients.size()) + to_table(clients);
  if (lines == 0) return view;
  std::size_t end = 0;
  for (std::size_t line = 0; line < lines && end < view.size(); ++line) end = view.find('\n', end) + 1;
  return view.substr(0, end);
}

}  // namespace uroce::cli
