// Enumerations in words.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <uroce/types.h>

namespace uroce::cli {

inline std::string_view name(QpType type) {
  switch (type) {
    case QpType::rc: return "RC";
    case QpType::uc: return "UC";
    case QpType::ud: return "UD";
  }
  return "?";
}

inline std::string_view name(QpState state) {
  switch (state) {
    case QpState::reset: return "RESET";
    case QpState::init: return "INIT";
    case QpState::rtr: return "RTR";
    case QpState::rts: return "RTS";
    case QpState::sqd: return "SQD";
    case QpState::sqe: return "SQE";
    case QpState::error: return "ERROR";
  }
  return "?";
}

/// "local_write|remote_read", or "local_read" alone, which all regions have.
inline std::string name(AccessFlags access) {
  constexpr std::pair<Access, std::string_view> kNames[] = {{Access::local_write, "local_write"},
                                                            {Access::remote_write, "remote_write"},
                                                            {Access::remote_read, "remote_read"},
                                                            {Access::remote_atomic, "remote_atomic"},
                                                            {Access::mw_bind, "mw_bind"},
                                                            {Access::zero_based, "zero_based"},
                                                            {Access::relaxed_ordering, "relaxed_ordering"},
                                                            {Access::remote_invalidate, "remote_invalidate"}};
  std::string out;
  for (const auto& [bit, word] : kNames) {
    if (access.has(bit)) out += fmt::format("{}{}", out.empty() ? "" : "|", word);
  }
  return out.empty() ? "local_read" : out;
}

}  // namespace uroce::cli
