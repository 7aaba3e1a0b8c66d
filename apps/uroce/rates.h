// Counters over time.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include <uroce/error.h>

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
  uint64_t growth = 0;  ///< the total without an earlier sample
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

/// A table for people, of totals or of their growth. Leaves out counters that are 0 there unless `all`.
std::string rates_table(const std::vector<DeviceRates>& devices, bool all, bool growth = false);
/// JSON in one line, without a newline: an object for each device. `now`: of the wall clock.
std::string rates_json(const std::vector<DeviceRates>& devices, std::chrono::system_clock::time_point now);
/// Both clocks' time at one moment.
struct Now {
  std::chrono::steady_clock::time_point steady{};
  std::chrono::system_clock::time_point wall{};
};
/// The sample that rates_json() wrote, at its time by the wall clock. Errors: EINVAL (the text is something else).
Result<Sample> sample_in(const std::string& text, const Now& now);

}  // namespace uroce::cli
