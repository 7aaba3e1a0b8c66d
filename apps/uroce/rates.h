// Counters over time.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "uroce/rows.h"

namespace uroce::cli {

struct Sample {
  std::chrono::steady_clock::time_point at{};
  std::vector<CounterRow> counters{};
  // Only for `top`:
  std::vector<ClientRow> clients{};
  std::vector<EngineRow> engines{};
  std::vector<ObjectRow> qps{};
};

struct Rate {
  std::string name;
  uint64_t total = 0;
  double per_second = 0;
};
struct DeviceRates {
  std::string device;
  std::vector<Rate> rates;  ///< in the daemon's order
};

/// The growth between two samples. A counter or device that `before` lacks, or that went back because the daemon was
/// restarted, counts from 0. `before` may be empty; all rates are then 0.
std::vector<DeviceRates> rates_between(const Sample& before, const Sample& after);

/// The rate of a device's counter; 0 when there is no such counter.
double rate_of(const DeviceRates& device, std::string_view counter);

/// A table for people. Leaves counters that are 0 out unless `all`.
std::string rates_table(const std::vector<DeviceRates>& devices, bool all);
/// JSON in one line, without a newline: an object for each device.
std::string rates_json(const std::vector<DeviceRates>& devices);

}  // namespace uroce::cli
