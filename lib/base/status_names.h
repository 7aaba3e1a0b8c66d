// The names of completion statuses in logs, in the output of programs and in the tests' scripts.
#pragma once

#include <array>
#include <string_view>
#include <utility>

#include <uroce/types.h>

namespace uroce {

inline constexpr std::array<std::pair<std::string_view, WcStatus>, 15> kStatusNames{{
    {"success", WcStatus::success},
    {"local_length_error", WcStatus::local_length_error},
    {"local_qp_operation_error", WcStatus::local_qp_operation_error},
    {"local_protection_error", WcStatus::local_protection_error},
    {"flushed", WcStatus::flushed},
    {"mw_bind_error", WcStatus::mw_bind_error},
    {"bad_response", WcStatus::bad_response},
    {"local_access_error", WcStatus::local_access_error},
    {"remote_invalid_request", WcStatus::remote_invalid_request},
    {"remote_access_error", WcStatus::remote_access_error},
    {"remote_operation_error", WcStatus::remote_operation_error},
    {"retry_exceeded", WcStatus::retry_exceeded},
    {"rnr_retry_exceeded", WcStatus::rnr_retry_exceeded},
    {"fatal", WcStatus::fatal},
    {"general_error", WcStatus::general_error},
}};

/// "retry_exceeded"; "unknown status" for a number that is none.
constexpr std::string_view status_name(WcStatus status) {
  for (const auto& [name, value] : kStatusNames) {
    if (value == status) return name;
  }
  return "unknown status";
}

}  // namespace uroce
