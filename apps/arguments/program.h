// The options of a program: declared here, parsed and explained by CLI11. Only program.cc includes CLI11, because each
// source that does takes seconds to compile.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace uroce::arguments {

/// Text to print instead of running, and the exit code.
struct EarlyExit {
  int code = 0;
  std::string text{};
};

/// Takes a value of the command line. Returns what is wrong with it; empty for nothing.
using Take = std::function<std::string(const std::string& value)>;

/// An option or a positional argument.
class Option {
 public:
  explicit Option(CLI::Option& option) : option_(&option) {}
  /// The text in --help for the value.
  Option& shown_as(const std::string& value);
  Option& required();
  Option& excludes(const Option& other);
  /// Whether it is on the command line that was parsed.
  bool given() const;

 private:
  CLI::Option* option_;
};

/// The words behind a program's name, or behind that of one of its commands. Names are like "-s,--size"; one
/// without dashes is that of a positional argument.
class Command {
 public:
  explicit Command(CLI::App& app) : app_(app) {}

  /// A flag alone is true. "=false" behind it, or a word that means the same, makes it false.
  Option flag(const std::string& names, bool& to, const std::string& help);
  /// `take` gets "true" or "false".
  Option flag(const std::string& names, const Take& take, const std::string& help);
  Option value(const std::string& names, const Take& take, const std::string& help);
  /// Takes a value each time it is given.
  Option values(const std::string& names, const Take& take, const std::string& help);
  Option text(const std::string& names, std::string& to, const std::string& help);
  Option text(const std::string& names, std::optional<std::string>& to, const std::string& help);
  /// The value may be left out.
  Option text_or_none(const std::string& names, std::string& to, const std::string& help);
  Option texts(const std::string& names, std::vector<std::string>& to, const std::string& help);

  template <std::integral T>
  Option number(const std::string& names, T& to, std::type_identity_t<T> least, std::type_identity_t<T> most,
                const std::string& help) {
    return whole(names, static_cast<uint64_t>(least), static_cast<uint64_t>(most), store_in<T>(to), help);
  }
  template <std::integral T>
  Option number(const std::string& names, std::optional<T>& to, std::type_identity_t<T> least,
                std::type_identity_t<T> most, const std::string& help) {
    return whole(names, static_cast<uint64_t>(least), static_cast<uint64_t>(most), store_in<T>(to), help);
  }
  Option real(const std::string& names, double& to, double least, double most, const std::string& help);
  /// Bytes, with suffix K, M, G or T.
  template <std::integral T>
  Option size(const std::string& names, T& to, std::type_identity_t<T> least, std::type_identity_t<T> most,
              const std::string& help) {
    return bytes(names, static_cast<uint64_t>(least), static_cast<uint64_t>(most), store_in<T>(to), help);
  }

  /// One of the words of `table`, which has pairs of a word and a value. --help lists the words behind `help`, and says
  /// which is the default: that of the value that `to` has now, or else `by_default` in words.
  template <class Choice, class Table>
  Option choice(const std::string& names, Choice& to, const Table& table, const std::string& help,
                std::string_view by_default = {}) {
    std::vector<std::string_view> words;
    for (const auto& [word, value] : table) {
      words.push_back(word);
      if (value == to) by_default = word;
    }
    const auto choose = [&to, table](std::size_t index) {
      to = std::next(table.begin(), static_cast<std::ptrdiff_t>(index))->second;
    };
    return one_of(names, words, by_default, choose, help);
  }

  /// `chosen` is called when the command line has this command. A command with commands below it needs one of them.
  Command command(const std::string& name, const std::string& help, const std::function<void()>& chosen = {});
  /// Options that are declared from now on stand under this heading in --help.
  void heading(const std::string& title);
  /// Text below the options.
  void footer(const std::string& text);

 protected:
  CLI::App& app() const { return app_; }

 private:
  using Set = std::function<void(uint64_t)>;
  template <std::integral T, class To>
  static Set store_in(To& to) {
    return [&to](uint64_t number) { to = static_cast<T>(number); };
  }

  Option whole(const std::string& names, uint64_t least, uint64_t most, const Set& set, const std::string& help);
  Option bytes(const std::string& names, uint64_t least, uint64_t most, const Set& set, const std::string& help);
  Option one_of(const std::string& names, const std::vector<std::string_view>& words, std::string_view by_default,
                const std::function<void(std::size_t)>& choose, const std::string& help);

  CLI::App& app_;
};

class Program : public Command {
 public:
  /// `usage`: what stands before the options in the line of usage. Each refusal begins with `name` and ends with
  /// `advice`.
  Program(const std::string& name, const std::string& summary, const std::string& usage, const std::string& advice);

  /// Reads the words behind the program's name. nullopt: all of them are taken. Else the help (code 0) or a refusal
  /// (code 2).
  std::optional<EarlyExit> parse(std::vector<std::string> words);
  EarlyExit refusal(std::string_view fault) const;
  std::string help() const;
  /// Whether the command line that was parsed has a command.
  bool has_command() const;

 private:
  Program(std::shared_ptr<CLI::App> app, const std::string& name, const std::string& advice);

  std::shared_ptr<CLI::App> owned_;
  std::string name_, advice_;
};

/// The words of main() behind the program's name.
std::vector<std::string> words_of(int argc, const char* const* argv);
/// A decimal number, or a hexadecimal one that begins with 0x.
std::optional<uint64_t> whole_of(std::string_view text);
/// Bytes from a number with suffix K, M, G or T, or none.
std::optional<uint64_t> size_of(std::string text);
/// A number with or without a fraction.
std::optional<double> real_of(std::string_view text);

}  // namespace uroce::arguments
