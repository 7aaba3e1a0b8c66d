#include "uroce/rates.h"

#include <fmt/format.h>

#include <algorithm>
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

}  // namespace uroce::cli
