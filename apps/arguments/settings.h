// The options of the settings that several programs have. Name, range, default and help are those of the table.
#pragma once

#include <functional>
#include <string>

#include <uroce/stack.h>

#include "arguments/program.h"
#include "settings/table.h"

namespace uroce::arguments {

/// The option of `setting`. `take` gets its word as it is, in the range or not; of a flag "true". `by_default` is for
/// --help.
Option add_word(Command& program, const settings::Setting& setting, const std::string& by_default, const Take& take);

/// The option of `setting`, which refuses what is out of range.
Option add_setting(Command& program, const settings::Setting& setting, const std::string& by_default,
                   const std::function<void(const settings::Value&)>& set);

/// The options of all settings of the table that `which` has, one of settings::kPerf and so on.
void add_settings(Command& program, unsigned which, StackOptions& to);

}  // namespace uroce::arguments
