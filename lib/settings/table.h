// The table of the settings of a stack, its ports and its engines. A new setting is a row here and a member of
// EngineSettings, StackOptions or PortSettings.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <uroce/engine_settings.h>
#include <uroce/error.h>
#include <uroce/stack.h>

#include "settings/access.h"
#include "settings/setting.h"

namespace uroce::settings {

struct Row {
  Setting setting;
  Access<StackOptions> stack;
  Access<EngineSettings> engine{};  ///< set for a member of EngineSettings
  Access<PortSettings> port{};      ///< set where a port may have a value of its own
};

std::span<const Row> rows();

/// Errors: EINVAL naming the setting, its value and its range. Settings of ports are for the caller, by of_port().
Result<void> check(const StackOptions& options);
Result<void> check(const EngineSettings& settings);

/// The options with a port's own settings in place of the stack's.
StackOptions of_port(const StackOptions& options, const PortSettings& own);

/// "automatic", then the ways to compute the ICRC that this CPU has, the fastest first.
std::vector<std::string_view> icrc_choices();

}  // namespace uroce::settings
