// Finds objects of a program that an estate of an older version has no place for.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "service/client_state.h"

namespace uroce::service {

/// The first of its objects that an estate of `version` has no place for; none: all of them go over. No request of the
/// program is served.
std::optional<std::string_view> newer_than(uint32_t version, const Program& program,
                                           std::span<ClientState* const> devices);

}  // namespace uroce::service
