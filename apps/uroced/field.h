// One key of the configuration file.
#pragma once

#include <expected>
#include <functional>
#include <string>
#include <string_view>

#include <toml++/toml.h>

#include "settings/setting.h"

namespace uroce::daemon {

/// Reason to refuse a value. It follows "key = value: " in the message.
struct Refusal {
  std::string text;
  const toml::node* where = nullptr;  ///< the refused part of the value; nullptr for all of it
};

using Read = std::expected<void, Refusal>;

template <class Target>
struct Field {
  settings::Setting setting;
  std::function<Read(const toml::node&, Target&)> read;
  std::function<std::string(const Target&)> show;
  /// Copies the value, for a running daemon that takes a new one.
  std::function<void(const Target& from, Target& to)> copy{};

  std::string_view name() const { return setting.key; }
  bool live() const { return setting.live; }
};

/// "a string", "an integer", ...
std::string_view kind_of(const toml::node& node);

}  // namespace uroce::daemon
