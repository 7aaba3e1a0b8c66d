#include "transport/congestion/parameters.h"

#include <array>
#include <cerrno>

#include <fmt/format.h>

#include "transport/core/setting_names.h"

namespace uroce::transport {
namespace {

template <auto Part, auto Member>
CongestionParameter whole(std::string_view algorithm, std::string_view name, double least, double most) {
  return {algorithm, name, least, most, [](CongestionSettings& s) -> uint32_t& { return s.*Part.*Member; }, nullptr};
}
template <auto Part, auto Member>
CongestionParameter real(std::string_view algorithm, std::string_view name, double least, double most) {
  return {algorithm, name, least, most, nullptr, [](CongestionSettings& s) -> double& { return s.*Part.*Member; }};
}

constexpr double kMaxMicros = 1e6;
constexpr double kMaxMbps = 1e6;  // a terabit per second

}  // namespace

std::span<const CongestionParameter> congestion_parameters() {
  using D = DcqcnSettings;
  using S = SwiftSettings;
  constexpr auto kD = &CongestionSettings::dcqcn;
  constexpr auto kS = &CongestionSettings::swift;
  static const std::array kAll{
      real<kD, &D::gain>("dcqcn", "gain", 0.0001, 1),
      whole<kD, &D::alpha_timer_us>("dcqcn", "alpha_timer_us", 1, kMaxMicros),
      whole<kD, &D::increase_timer_us>("dcqcn", "increase_timer_us", 1, kMaxMicros),
      whole<kD, &D::byte_counter_kib>("dcqcn", "byte_counter_kib", 1, 1 << 20),
      whole<kD, &D::fast_recovery>("dcqcn", "fast_recovery", 1, 100),
      whole<kD, &D::additive_mbps>("dcqcn", "additive_mbps", 1, kMaxMbps),
      whole<kD, &D::hyper_mbps>("dcqcn", "hyper_mbps", 1, kMaxMbps),
      whole<kD, &D::min_rate_mbps>("dcqcn", "min_rate_mbps", 1, kMaxMbps),
      whole<kD, &D::line_rate_mbps>("dcqcn", "line_rate_mbps", 0, kMaxMbps),
      whole<kD, &D::cnp_interval_us>("dcqcn", "cnp_interval_us", 0, kMaxMicros),
      real<kS, &S::base_target_us>("swift", "base_target_us", 1, kMaxMicros),
      real<kS, &S::flow_scaling_us>("swift", "flow_scaling_us", 0, kMaxMicros),
      real<kS, &S::flow_scaling_min>("swift", "flow_scaling_min", 0.001, 1),
      real<kS, &S::flow_scaling_max>("swift", "flow_scaling_max", 2, 65536),
      real<kS, &S::additive_increase>("swift", "additive_increase", 0.01, 100),
      real<kS, &S::beta>("swift", "beta", 0.01, 1),
      real<kS, &S::max_decrease>("swift", "max_decrease", 0.01, 0.99),
      real<kS, &S::min_window>("swift", "min_window", 0.0001, 1),
      whole<kS, &S::reset_after_timeouts>("swift", "reset_after_timeouts", 1, 100),
  };
  return kAll;
}

Result<void> check_congestion(const CongestionSettings& settings) {
  if (!is_known(kCongestionNames, settings.algorithm)) {
    return fail(EINVAL, fmt::format("congestion_control of the device is {}; it must be none, dcqcn or swift",
                                    static_cast<uint32_t>(settings.algorithm)));
  }
  CongestionSettings copy = settings;  // the accessors only name a member
  for (const CongestionParameter& one : congestion_parameters()) {
    const double value = one.whole != nullptr ? one.whole(copy) : one.real(copy);
    // NaN is refused as well.
    if (value >= one.least && value <= one.most) continue;
    return fail(EINVAL,
                fmt::format("{}.{} is {}; it must be {} to {}", one.algorithm, one.name, value, one.least, one.most));
  }
  return {};
}

}  // namespace uroce::transport
