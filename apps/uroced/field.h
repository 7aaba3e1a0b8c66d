// One key of the configuration file.
#pragma once

#include <expected>
#include <functional>
#include <string>
#include <string_view>

#include <toml++/toml.h>

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

/// "a string", "an integer", ...
std::string_view kind_of(const toml::node& node);

}  // namespace uroce::daemon
