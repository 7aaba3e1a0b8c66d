// One setting: its name, its range, and what it does. Files, options, --help, documents and checks are made of this.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <uroce/error.h>

namespace uroce::settings {

/// monostate: an optional setting that is not set. A string is also the word of an enumerator.
using Value = std::variant<std::monostate, int64_t, double, bool, std::string>;

/// machine_word: a word of a list that depends on the CPU.
enum class Kind : uint8_t { whole, real, truth, word, machine_word, text };

/// The programs that have an option for a setting.
inline constexpr unsigned kUroced = 1, kPerf = 2, kNvmf = 4, kAllPrograms = kUroced | kPerf | kNvmf;

struct Setting {
  std::string_view table{};                            ///< of the daemon's file: "engines"
  std::string_view key{};                              ///< "max_qp"
  double least = 0, most = 0;                          ///< of numbers
  std::string_view unit{};                             ///< "bytes"; empty: none, or the text says what is counted
  std::string_view zero{};                             ///< the meaning of 0, which is then allowed outside the range
  std::string_view option{};                           ///< of programs: "--idle"; empty: none
  unsigned programs = kUroced;                         ///< which have it
  bool live = false;                                   ///< a running daemon takes a new value
  std::string_view values{};                           ///< of text: what may stand there
  std::string_view by_default{};                       ///< in words, where the default is no value
  std::string_view example{};                          ///< as in a file, where there is no default
  std::string_view text{};                             ///< sentences; --help has the first one
  Kind kind = Kind::text;                              ///< of the member
  std::vector<std::string_view> (*words)() = nullptr;  ///< of a word
};

/// "udp_source_ports", "dcqcn.gain": as messages name it. Only the tables of an algorithm stand before the key.
std::string name(const Setting& setting);
/// The kind and the range, as a refusal of the file says them: "an integer from 1 to 64".
std::string needed(const Setting& setting);
/// The range alone: "1 to 64".
std::string range(const Setting& setting);
/// Whether the value is of the kind and in the range.
bool allows(const Setting& setting, const Value& value);
/// Errors: EINVAL naming the setting, its value and its range.
Result<void> check(const Setting& setting, const Value& value);
/// The value as the daemon's file has it: a string stands in quotes.
std::string text_of(const Value& value);
/// The same without quotes.
std::string plain_text_of(const Value& value);
/// The first sentence of the text, without its full stop.
std::string_view help(const Setting& setting);

/// The text in quotes, with quotes, backslashes and control characters escaped as in TOML.
std::string in_quotes(std::string_view text);

}  // namespace uroce::settings
