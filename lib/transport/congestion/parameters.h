// A table of the parameters of congestion control: names and ranges, to read settings and to check them.
#pragma once

#include <span>
#include <string_view>

#include <uroce/congestion.h>
#include <uroce/error.h>

namespace uroce::transport {

/// Either `whole` or `real` names the member.
struct CongestionParameter {
  std::string_view algorithm;  ///< "dcqcn"
  std::string_view name;       ///< "gain"
  double least;
  double most;
  uint32_t& (*whole)(CongestionSettings&) = nullptr;
  double& (*real)(CongestionSettings&) = nullptr;
};

std::span<const CongestionParameter> congestion_parameters();
/// Errors: EINVAL naming the parameter, its value and its range.
Result<void> check_congestion(const CongestionSettings& settings);

}  // namespace uroce::transport
