// Every key of the configuration file: how its value is read, shown, and whether it can change at run time.
#pragma once

#include <expected>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include <toml++/toml.h>

#include "uroced/config.h"

namespace uroce::daemon {

/// Why a value cannot be used, to follow "key = value: ".
struct Refusal {
  std::string text;
  const toml::node* where = nullptr;  ///< inside the value; nullptr for the value itself
};

template <class Target>
struct Field {
  std::string_view name;
  bool live = false;
  std::function<std::expected<void, Refusal>(const toml::node&, Target&)> read;
  std::function<std::string(const Target&)> show;
};

struct Section {
  std::string_view name;
  std::span<const Field<Config>> fields;
};

/// All tables but [[device]].
std::span<const Section> sections();
/// The keys of [[device]].
std::span<const Field<DeviceSettings>> device_fields();

/// "a string", "an integer", ...
std::string_view kind_of(const toml::node& node);

}  // namespace uroce::daemon
