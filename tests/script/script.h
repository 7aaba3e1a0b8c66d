// Packet scripts as text: sections of timed lines. See README.md for the language.
#pragma once

#include <cstdint>
#include <istream>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"

namespace uroce::test {

/// A fault at a line of a script.
struct ScriptError {
  int line = 0;
  std::string text;
};

/// One line: `+10us > ACK psn=5` has step 10 us, command ">" and words {"ACK", "psn=5"}.
struct ScriptLine {
  int number = 0;
  std::string text;
  Nanos step{0};
  bool within = false;  ///< `~` instead of `+`: up to this long, not exactly
  std::string command;
  std::vector<std::string> words;
};

struct Script {
  std::string file;
  std::string name;
  std::vector<ScriptLine> lines;
};

/// Reads a file of sections, each starting with `== name`. Throws ScriptError.
std::vector<Script> load_scripts(const std::string& path);
/// Likewise, where the file's text is at hand.
std::vector<Script> read_scripts(std::istream& in, const std::string& path);

/// Numbers by name, so that lines can say `va=dst+64` and `rkey=dst.key`.
class Symbols {
 public:
  void set(const std::string& name, uint64_t value) { values_[name] = value; }
  /// The value of `12`, `0x10`, `name`, `name+12` or `name-0x10`; nullopt for anything else.
  std::optional<uint64_t> value(std::string_view expression) const;
  /// `key=expression` with the expression replaced by its value, where it starts with a known name.
  std::string substitute(const std::string& word) const;

 private:
  std::map<std::string, uint64_t, std::less<>> values_;
};

/// The words of a line as `key=value` pairs and flags, each asked for at most once. An unasked one is an error.
class Words {
 public:
  Words(const ScriptLine& line, const Symbols& symbols);
  bool flag(std::string_view name);
  std::optional<std::string> text(std::string_view key);
  std::optional<uint64_t> number(std::string_view key);
  uint64_t number_or(std::string_view key, uint64_t fallback) { return number(key).value_or(fallback); }
  /// The first word that is neither flag nor pair yet taken, e.g. an operation's name. Empty when there is none.
  std::string bare();
  /// Throws when words are left over.
  void done() const;
  [[noreturn]] void error(const std::string& what) const;

 private:
  struct Word {
    std::string text;
    bool taken = false;
  };
  const ScriptLine& line_;
  const Symbols& symbols_;
  std::vector<Word> words_;
};

}  // namespace uroce::test
