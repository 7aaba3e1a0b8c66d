// One key of the configuration file.
#pragma once

#include <expected>
#include <functional>
#include <string>
#include <string_view>

#include <toml++/toml.h>

namespace uroce::daemon {

/// Reason to refuse a value. It follows "key = value: " in the message.
struct Refusal {
  std::string text;
  const toml::node* where = nullptr;  ///< the refused part of the value; nullptr for all of it
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

/// The text as the file has it: in quotes, with quotes, backslashes and control characters escaped.
std::string toml_string(std::string_view text);

}  // namespace uroce::daemon
