#include "uroced/config.h"

#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "pmd_glue/eal_args.h"
#include "uroced/config_fields.h"
#include "uroced/field.h"

namespace uroce::daemon {

namespace {

constexpr std::size_t kMostDevices = 32;  // RTE_MAX_ETHPORTS
constexpr std::size_t kMostUsers = 256;
constexpr std::size_t kMostBytes = std::size_t{1} << 20;

/// A value as one short line.
std::string text_of(const toml::node& node) {
  std::ostringstream out;
  node.visit([&](const auto& value) { out << value; });
  std::string text = out.str();
  std::ranges::replace(text, '\n', ' ');
  constexpr std::size_t kMost = 60;
  if (text.size() > kMost) text = text.substr(0, kMost) + "...";
  return text;
}

template <class Target>
std::string names_of(std::span<const Field<Target>> fields) {
  std::string names;
  for (const auto& field : fields) names += (names.empty() ? "" : ", ") + std::string(field.name());
  return names;
}

/// Reads one document into a configuration.
class Reader {
 public:
  /// `by_line`: messages have positions in `source`.
  Reader(std::string source, bool by_line, Config& config, ConfigErrors& errors)
      : source_(std::move(source)), by_line_(by_line), config_(config), errors_(errors) {}

  void read(const toml::table& root) {
    for (const auto& [key, node] : root) {
      if (key == "device") {
        read_tables(node, "device", device_fields(), config_.devices, kMostDevices, "port");
        continue;
      }
      if (key == "user") {
        read_users(node);
        continue;
      }
      const auto section = std::ranges::find(sections(), key.str(), &Section::name);
      if (section == sections().end()) {
        std::string known;
        for (const Section& one : sections()) known += fmt::format("[{}], ", one.name);
        problem(key.source(),
                fmt::format("unknown table [{}]; the tables are {}[[user]], [[device]]", key.str(), known));
      } else {
        read_table<Config>(node, std::string(section->name), section->fields, config_);
      }
    }
    // Tables are sorted by name. Report faults in the order of lines.
    std::ranges::stable_sort(problems_, {}, &Problem::line);
    for (Problem& one : problems_) errors_.push_back(std::move(one.text));
  }

 private:
  struct Problem {
    uint32_t line;
    std::string text;
  };

  void problem(const toml::source_region& where, std::string_view text) {
    const auto& begin = where.begin;
    problems_.push_back({begin.line, by_line_ ? fmt::format("{}:{}:{}: {}", source_, begin.line, begin.column, text)
                                              : fmt::format("{}: {}", source_, text)});
  }

  /// [[name]]: one table for each element of `targets`, each of them for a `thing`.
  template <class Target>
  void read_tables(const toml::node& node, const std::string& name, std::span<const Field<Target>> fields,
                   std::vector<Target>& targets, std::size_t most, std::string_view thing) {
    targets.clear();
    if (node.is_table()) {
      read_table(node, name, fields, targets.emplace_back());
      return;
    }
    if (!node.is_array()) {
      problem(node.source(), fmt::format("{} = {}: it is {}; it must be a table [[{}]] for each {}", name,
                                         text_of(node), kind_of(node), name, thing));
      return;
    }
    for (const toml::node& element : *node.as_array()) {
      if (targets.size() == most) {
        problem(element.source(), fmt::format("this is {} {}; there are at most {} {}s", name, most + 1, most, thing));
        return;
      }
      const std::string numbered = fmt::format("{}[{}]", name, targets.size());
      read_table(element, numbered, fields, targets.emplace_back());
    }
  }

  void read_users(const toml::node& node) {
    auto& users = config_.server.budgets.users;
    read_tables(node, "user", user_fields(), users, kMostUsers, "user");
    for (std::size_t i = 0; i < users.size(); ++i) {
      const auto same = [&](const service::UserSettings& other) { return other.uid == users[i].uid; };
      if (users[i].name.empty()) {
        problem(node.source(), fmt::format("user[{}] has no name; write the name of a user, or a uid", i));
      } else if (std::any_of(users.begin(), users.begin() + static_cast<std::ptrdiff_t>(i), same)) {
        problem(node.source(),
                fmt::format("user[{}] is user {} again; write one table for each user", i, users[i].uid));
      }
    }
  }

  template <class Target>
  void read_table(const toml::node& node, const std::string& name, std::span<const Field<Target>> fields,
                  Target& target) {
    if (!node.is_table()) {
      problem(node.source(), fmt::format("{} = {}: it is {}; it must be a table", name, text_of(node), kind_of(node)));
      return;
    }
    for (const auto& [key, value] : *node.as_table()) {
      const auto field = std::ranges::find(fields, key.str(), &Field<Target>::name);
      if (field == fields.end()) {
        problem(key.source(),
                fmt::format("unknown key {}.{}; {} has {}", name, key.str(), name, names_of<Target>(fields)));
        continue;
      }
      if (const auto done = field->read(value, target); !done) {
        const toml::node& where = done.error().where != nullptr ? *done.error().where : value;
        problem(where.source(), fmt::format("{}.{} = {}: {}", name, key.str(), text_of(where), done.error().text));
      }
    }
  }

  const std::string source_;
  const bool by_line_;
  Config& config_;
  ConfigErrors& errors_;
  std::vector<Problem> problems_;
};

std::expected<toml::table, std::string> parse_text(const std::string& text) {
  try {
    return toml::parse(text);
  } catch (const toml::parse_error& e) {
    return std::unexpected(std::string(e.description()));
  }
}

std::expected<toml::table, std::string> parse_override(const Override& one) {
  auto as_it_is = parse_text(fmt::format("{} = {}", one.key, one.value));
  if (as_it_is) return as_it_is;
  // Most likely a string without quotes. Any other fault shows again.
  auto quoted = parse_text(fmt::format("{} = {}", one.key, settings::in_quotes(one.value)));
  if (quoted) return quoted;
  return std::unexpected(fmt::format("{}: cannot read {} = {}: {}", one.source, one.key, one.value, quoted.error()));
}

}  // namespace

std::expected<Config, ConfigErrors> read_config(std::string_view text, const std::string& source,
                                                const std::vector<Override>& overrides) {
  Config config;
  ConfigErrors errors;
  try {
    Reader(source, true, config, errors).read(toml::parse(text));
  } catch (const toml::parse_error& e) {
    const auto& at = e.source().begin;
    errors.push_back(fmt::format("{}:{}:{}: not valid TOML: {}", source, at.line, at.column, e.description()));
  }
  for (const Override& one : overrides) {
    const auto table = parse_override(one);
    if (table) {
      Reader(one.source, false, config, errors).read(*table);
    } else {
      errors.push_back(table.error());
    }
  }
  if (!config.lcores.empty() && glue::names_lcores(config.eal)) {
    errors.push_back(
        fmt::format("{}: engines.lcores and eal.arguments both name lcores; leave one of them out", source));
  }
  if (!errors.empty()) return std::unexpected(errors);
  return config;
}

std::expected<Config, ConfigErrors> read_config_file(const std::string& path, const std::vector<Override>& overrides) {
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  std::string text(kMostBytes + 1, '\0');
  if (in) in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!in.is_open() || in.bad() || (in.gcount() == 0 && errno == EISDIR)) {
    const int code = errno;
    // A daemon that has given up root reads the file again at SIGHUP.
    const std::string way_out = code == EACCES ? fmt::format("; let the user with id {} read it", geteuid()) : "";
    return std::unexpected(ConfigErrors{fmt::format("cannot read {}: {}{}", path, std::strerror(code), way_out)});
  }
  text.resize(static_cast<std::size_t>(in.gcount()));
  if (text.size() > kMostBytes) {
    return std::unexpected(
        ConfigErrors{fmt::format("{} is larger than 1 MiB; a configuration file must be smaller", path)});
  }
  return read_config(text, path, overrides);
}

std::vector<Change> changes_between(const Config& before, const Config& after) {
  std::vector<Change> out;
  const auto compare = [&out](const auto& field, const std::string& table, const auto& a, const auto& b) {
    std::string was = field.show(a);
    std::string is = field.show(b);
    if (was != is)
      out.push_back({fmt::format("{}.{}", table, field.name()), std::move(was), std::move(is), field.live()});
  };
  for (const Section& section : sections()) {
    for (const auto& field : section.fields) compare(field, std::string(section.name), before, after);
  }
  const auto compare_all = [&](const std::string& name, const auto& fields, const auto& were, const auto& are,
                               bool live) {
    for (std::size_t i = 0; i < std::min(were.size(), are.size()); ++i) {
      for (const auto& field : fields) compare(field, fmt::format("{}[{}]", name, i), were[i], are[i]);
    }
    if (were.size() == are.size()) return;
    out.push_back(
        {fmt::format("the number of {}s", name), fmt::to_string(were.size()), fmt::to_string(are.size()), live});
  };
  compare_all("user", user_fields(), before.server.budgets.users, after.server.budgets.users, true);
  compare_all("device", device_fields(), before.devices, after.devices, false);
  return out;
}

void apply_live(Config& running, const Config& after) {
  for (const Section& section : sections()) {
    for (const auto& field : section.fields) {
      if (field.live()) field.copy(after, running);
    }
  }
  running.server.budgets.users = after.server.budgets.users;
  const std::size_t both = std::min(running.devices.size(), after.devices.size());
  for (std::size_t i = 0; i < both; ++i) {
    for (const auto& field : device_fields()) {
      if (field.live()) field.copy(after.devices[i], running.devices[i]);
    }
  }
}

}  // namespace uroce::daemon
