// The table of all keys of the configuration file: how a value is read and shown, and whether it can change at run
// time.
#pragma once

#include <span>
#include <string_view>

#include "uroced/field.h"
#include "uroced/settings.h"

namespace uroce::daemon {

struct Section {
  std::string_view name;
  std::string_view text;  ///< of all its keys; may be empty
  std::span<const Field<Config>> fields;
};

/// All tables but [[user]] and [[device]].
std::span<const Section> sections();
/// The keys of [limits].
std::span<const Field<Config>> limit_fields();
/// The keys of [[user]].
std::span<const Field<service::UserSettings>> user_fields();
/// The keys of [[device]].
std::span<const Field<DeviceSettings>> device_fields();

}  // namespace uroce::daemon
