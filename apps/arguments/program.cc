#include "arguments/program.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <utility>

namespace uroce::arguments {

namespace {

constexpr int kUsage = 2;

/// Two columns: the names with the value, and the text. The layout of CLI11 itself differs between its versions, and
/// the manual pages are made from this one.
class Columns : public CLI::FormatterBase {
 public:
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode /*mode*/) const override {
    const auto positionals = app->get_options([](const CLI::Option* option) { return option->get_positional(); });
    std::string out = fmt::format("{}\nUsage: {} [OPTIONS]", app->get_description(), name);
    for (const CLI::Option* option : positionals) out += " " + usage_of(*option);
    const auto commands = app->get_subcommands([](const CLI::App*) { return true; });
    if (!commands.empty()) out += app->get_require_subcommand_min() == 0 ? " [SUBCOMMAND]" : " SUBCOMMAND";
    out += "\n" + section("Positionals", positionals);
    for (const std::string& group : app->get_groups()) out += section(group, options_of(*app, group));
    if (!commands.empty()) out += "\nSubcommands:\n";
    for (const CLI::App* command : commands) out += row(command->get_name(), command->get_description());
    const std::string footer = app->get_footer();
    return fmt::format("{}\n{}{}", out, footer, footer.empty() ? "" : "\n");
  }

 private:
  static constexpr std::size_t kColumn = 32;

  static std::vector<const CLI::Option*> options_of(const CLI::App& app, const std::string& group) {
    return app.get_options([&group](const CLI::Option* option) {
      return !group.empty() && option->get_group() == group && option->nonpositional();
    });
  }

  /// "OPTIONS" is how later versions of CLI11 call options without a heading.
  static std::string section(const std::string& title, const std::vector<const CLI::Option*>& options) {
    std::string out = options.empty() ? "" : fmt::format("\n{}:\n", title == "OPTIONS" ? "Options" : title);
    for (const CLI::Option* option : options) {
      out += row(option->get_name(option->get_positional(), option->nonpositional()) + value_of(*option),
                 text_of(*option));
    }
    return out;
  }

  static std::string row(const std::string& left, const std::string& right) {
    const std::string begin = fmt::format("  {}", left);
    const bool fits = begin.size() < kColumn;
    return fmt::format("{0}{1:{2}}{3}\n", fits ? begin : begin + "\n", "", kColumn - (fits ? begin.size() : 0), right);
  }

  static bool takes_many(const CLI::Option& option) {
    return option.get_expected_max() >= CLI::detail::expected_max_vector_size;
  }

  static std::string usage_of(const CLI::Option& option) {
    const std::string name = option.get_name(true, false) + (takes_many(option) ? "..." : "");
    return option.get_required() ? name : "[" + name + "]";
  }

  static std::string value_of(const CLI::Option& option) {
    std::string out;
    if (const std::string value = option.get_type_name(); !value.empty()) out += " " + value;
    if (takes_many(option)) out += " ...";
    if (option.get_required()) out += " REQUIRED";
    return out;
  }

  static std::string text_of(const CLI::Option& option) {
    std::vector<std::string> others;
    for (const CLI::Option* other : option.get_excludes()) others.push_back(other->get_name());
    if (others.empty()) return option.get_description();
    std::ranges::sort(others);  // CLI11 has them in the order of their addresses
    return fmt::format("{} (not with {})", option.get_description(), fmt::join(others, ", "));
  }
};

/// "busy, yield or sleep (default)".
std::string list_of(const std::vector<std::string_view>& words, std::string_view by_default) {
  std::string out = words.size() == 1 ? "only " : "";
  for (const std::string_view& word : words) {
    if (&word != &words.front()) out += &word == &words.back() ? " or " : ", ";
    out += word;
    if (word == by_default && words.size() > 1) out += " (default)";
  }
  if (!by_default.empty() && std::ranges::find(words, by_default) == words.end()) {
    out += fmt::format(" (default: {})", by_default);
  }
  return out;
}

/// CLI11 says "--size: 1 required N missing" and "--size: At Most 1 required but received 2".
std::string text_of(const CLI::ArgumentMismatch& mismatch) {
  const std::string_view text = mismatch.what();
  const std::string_view name = text.substr(0, text.find(':'));
  if (text.ends_with("missing")) return fmt::format("{} needs a value behind it", name);
  if (text.find("At Most") != std::string_view::npos) return fmt::format("{} is there twice; leave one out", name);
  return std::string(text);
}

CLI::Option* add(CLI::App& app, const std::string& names, const Take& take, const std::string& help) {
  const auto take_all = [take, name = names.substr(names.rfind(',') + 1)](const CLI::results_t& values) {
    for (const std::string& value : values) {
      if (const std::string fault = take(value); !fault.empty()) throw CLI::ValidationError(name, fault);
    }
    return true;
  };
  return app.add_option(names, take_all, help)->type_name("TEXT");
}

template <class Text>
Take copy_to(Text& to) {
  return [&to](const std::string& value) {
    to = value;
    return std::string();
  };
}

std::vector<std::string_view> command_names(const CLI::App& app) {
  std::vector<std::string_view> out;
  for (const CLI::App* one : app.get_subcommands(nullptr)) out.push_back(one->get_name());
  return out;
}

/// The fault of the words that the command `app` and those below it did not take, or that are missing there.
/// `path`: the words that led to it.
std::optional<std::string> fault_of_words(const CLI::App& app, const std::string& path) {
  const auto commands = command_names(app);
  for (const std::string& word : app.remaining()) {
    if (word == "--") continue;
    if (word.starts_with('-')) return fmt::format("unknown option {} behind \"{}\"", word, path);
    if (commands.empty()) return fmt::format("unexpected word '{}' behind \"{}\"; leave it out", word, path);
    return fmt::format("unknown word '{}' behind \"{}\"; write {}", word, path, list_of(commands, {}));
  }
  const auto chosen = app.get_subcommands();
  if (!chosen.empty()) return fault_of_words(*chosen.front(), path + " " + chosen.front()->get_name());
  if (app.get_require_subcommand_min() == 0) return std::nullopt;
  return fmt::format("a word is missing behind \"{}\"; write {}", path, list_of(commands, {}));
}

}  // namespace

Option& Option::shown_as(const std::string& value) {
  option_->type_name(value);
  return *this;
}

Option& Option::required() {
  option_->required();
  return *this;
}

Option& Option::excludes(const Option& other) {
  option_->excludes(other.option_);
  return *this;
}

bool Option::given() const { return option_->count() > 0; }

Option Command::flag(const std::string& names, bool& to, const std::string& help) {
  return Option(*app_.add_flag(names, to, help));
}

Option Command::flag(const std::string& names, const Take& take, const std::string& help) {
  const auto take_truth = [take](const std::string& word) {
    bool truth = false;
    if (!CLI::detail::lexical_cast(word, truth)) return fmt::format("'{}' is neither true nor false", word);
    return take(truth ? "true" : "false");
  };
  CLI::Option* const option = add(app_, names, take_truth, help)->type_name("")->expected(0);
  return Option(*option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast));
}

Option Command::value(const std::string& names, const Take& take, const std::string& help) {
  return Option(*add(app_, names, take, help));
}

Option Command::values(const std::string& names, const Take& take, const std::string& help) {
  CLI::Option* const option = add(app_, names, take, help)->expected(CLI::detail::expected_max_vector_size);
  // An option takes one word at a time, and leaves those behind it to others.
  return Option(*option->allow_extra_args(!names.starts_with('-')));
}

Option Command::text(const std::string& names, std::string& to, const std::string& help) {
  return value(names, copy_to(to), help);
}

Option Command::text(const std::string& names, std::optional<std::string>& to, const std::string& help) {
  return value(names, copy_to(to), help);
}

Option Command::text_or_none(const std::string& names, std::string& to, const std::string& help) {
  return Option(*add(app_, names, copy_to(to), help)->expected(0, 1));
}

Option Command::texts(const std::string& names, std::vector<std::string>& to, const std::string& help) {
  const auto take = [&to](const std::string& value) {
    to.push_back(value);
    return std::string();
  };
  return values(names, take, help);
}

Option Command::whole(const std::string& names, uint64_t least, uint64_t most, const std::function<void(uint64_t)>& set,
                      const std::string& help) {
  const auto take = [=](const std::string& value) {
    const auto number = whole_of(value);
    if (!number || *number < least || *number > most) {
      return fmt::format("'{}' is no whole number from {} to {}", value, least, most);
    }
    set(*number);
    return std::string();
  };
  return value(names, take, help).shown_as(least == most ? fmt::to_string(least) : fmt::format("{}..{}", least, most));
}

Option Command::real(const std::string& names, double& to, double least, double most, const std::string& help) {
  const auto take = [&to, least, most](const std::string& value) {
    const auto number = real_of(value);
    const bool within = number && *number >= least && *number <= most;  // false for a NaN
    if (!within) return fmt::format("'{}' is no number from {} to {}", value, least, most);
    to = *number;
    return std::string();
  };
  return value(names, take, help).shown_as(fmt::format("{}..{}", least, most));
}

Option Command::bytes(const std::string& names, uint64_t least, uint64_t most, const std::function<void(uint64_t)>& set,
                      const std::string& help) {
  const auto take = [=](const std::string& value) {
    const auto number = size_of(value);
    if (!number || *number < least || *number > most) {
      return fmt::format("'{}' is no size from {} to {} bytes; write one like 4096 or 64K", value, least, most);
    }
    set(*number);
    return std::string();
  };
  return value(names, take, help).shown_as(fmt::format("{}..{}", least, most));
}

Option Command::one_of(const std::string& names, const std::vector<std::string_view>& words,
                       std::string_view by_default, const std::function<void(std::size_t)>& choose,
                       const std::string& help) {
  const auto take = [known = std::vector<std::string>(words.begin(), words.end()), choose](const std::string& value) {
    const auto found = std::ranges::find(known, value);
    if (found == known.end()) return fmt::format("'{}' is none of {}", value, fmt::join(known, ", "));
    choose(static_cast<std::size_t>(found - known.begin()));
    return std::string();
  };
  return value(names, take, fmt::format("{}: {}", help, list_of(words, by_default))).shown_as("WORD");
}

Command Command::command(const std::string& name, const std::string& help, const std::function<void()>& chosen) {
  CLI::App* const made = app_.add_subcommand(name, help);
  made->require_subcommand(0, 1);
  if (chosen) made->final_callback(chosen);
  // The program itself says what it does without a command.
  app_.require_subcommand(app_.get_parent() == nullptr ? 0 : 1, 1);
  return Command(*made);
}

void Command::heading(const std::string& title) { app_.option_defaults()->group(title); }

void Command::footer(const std::string& text) { app_.footer(text); }

Program::Program(const std::string& name, const std::string& summary, const std::string& usage,
                 const std::string& advice)
    : Program(std::make_shared<CLI::App>(summary, usage), name, advice) {}

Program::Program(std::shared_ptr<CLI::App> app, const std::string& name, const std::string& advice)
    : Command(*app), owned_(std::move(app)), name_(name), advice_(advice) {
  owned_->formatter(std::make_shared<Columns>());
}

std::optional<EarlyExit> Program::parse(std::vector<std::string> words) {
  std::ranges::reverse(words);
  try {
    app().parse(std::move(words));
  } catch (const CLI::CallForHelp&) {
    return EarlyExit{0, help()};
  } catch (const CLI::ArgumentMismatch& mismatch) {
    return refusal(text_of(mismatch));
  } catch (const CLI::ExcludesError& both) {
    return refusal(fmt::format("{}; leave one of them out", both.what()));
  } catch (const CLI::ParseError& fault) {
    return refusal(fault_of_words(app(), name_).value_or(fault.what()));
  }
  return std::nullopt;
}

EarlyExit Program::refusal(std::string_view fault) const {
  return {kUsage, fmt::format("{}: {}{}", name_, fault, advice_)};
}

std::string Program::help() const { return app().help(); }

bool Program::has_command() const { return !app().get_subcommands().empty(); }

std::optional<uint64_t> size_of(std::string text) {
  try {
    if (!CLI::AsSizeValue(false)(text).empty()) return std::nullopt;
  } catch (const CLI::ValidationError&) {
    return std::nullopt;
  }
  return whole_of(text);
}

}  // namespace uroce::arguments
