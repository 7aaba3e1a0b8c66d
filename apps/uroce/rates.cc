#include "uroce/rates.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>

#include "uroce/show.h"
#include "uroce/table.h"

namespace uroce::cli {

namespace {

using Json = nlohmann::ordered_json;

/// Year 2096: in range of all clocks.
constexpr int64_t kLatestMs = 4'000'000'000'000;

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
      device.rates.push_back({name, total, more, measured ? static_cast<double>(more) / seconds : 0});
    }
    out.push_back(std::move(device));
  }
  return out;
}

double rate_of(const DeviceRates& device, std::string_view counter) {
  const auto found = std::ranges::find(device.rates, counter, &Rate::name);
  return found == device.rates.end() ? 0 : found->per_second;
}

std::string rates_table(const std::vector<DeviceRates>& devices, bool all, bool growth) {
  std::vector<std::vector<std::string>> cells;
  for (const DeviceRates& device : devices) {
    for (const Rate& rate : device.rates) {
      const uint64_t number = growth ? rate.growth : rate.total;
      if (number == 0 && !all) continue;
      cells.push_back(
          {printable(device.device), printable(rate.name), fmt::to_string(number), short_number(rate.per_second)});
    }
  }
  return table({{"DEVICE"}, {"COUNTER"}, {growth ? "GROWTH" : "TOTAL", kRight}, {"PER SECOND", kRight}}, cells);
}

std::string rates_json(const std::vector<DeviceRates>& devices, std::chrono::system_clock::time_point now) {
  const auto time_ms = std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count();
  Json all = Json::array();
  for (const DeviceRates& device : devices) {
    Json counters = Json::object(), growth = Json::object(), rates = Json::object();
    for (const Rate& rate : device.rates) {
      counters[rate.name] = rate.total;
      growth[rate.name] = rate.growth;
      rates[rate.name] = rate.per_second;
    }
    all.push_back(Json{{"device", device.device},
                       {"time_ms", time_ms},
                       {"counters", counters},
                       {"growth", growth},
                       {"per_second", rates}});
  }
  return all.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<Sample> sample_in(const std::string& text, const Now& now) {
  Sample sample{.at = now.steady};
  try {
    for (const Json& device : Json::parse(text)) {
      const auto time_ms = device.at("time_ms").get<int64_t>();
      if (time_ms < 0 || time_ms > kLatestMs) return fail(EINVAL, fmt::format("its time_ms is {}", time_ms));
      const std::chrono::system_clock::time_point then{std::chrono::milliseconds(time_ms)};
      sample.at = now.steady - (now.wall - then);
      CounterRow& row = sample.counters.emplace_back(CounterRow{.device = device.at("device").get<std::string>()});
      for (const auto& [name, total] : device.at("counters").items()) {
        row.counters.emplace_back(name, total.get<uint64_t>());
      }
    }
  } catch (const Json::exception& e) {
    return fail(EINVAL, fmt::format("it is not what `uroce stat --json` writes: {}", e.what()));
  }
  if (sample.counters.empty()) return fail(EINVAL, "it has no devices; `uroce stat --interval 0 --json` writes them");
  return sample;
}

}  // namespace uroce::cli
