#include "uroced/settings_documents.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "uroced/config_fields.h"

namespace uroce::daemon {

namespace {

using settings::Kind;
using settings::Setting;

constexpr std::size_t kWidth = 120;
constexpr std::string_view kSampleHead =
    R"(# Settings of uroced: a sample with every key. Lines that are not commented out hold the defaults. They name no port: write
# [[device]] and interface = "eth0", with the name of yours, or ports of DPDK's under [eal]. Without any, uroced does not start.
#
#   uroced --check FILE       reports every fault of a file
#   systemctl reload uroced   (SIGHUP) reads the file again. Keys marked [live] change at once, limits for new clients;
#                             the log names the others that wait for the next start.
#   --set TABLE.KEY=VALUE     on the command line overrides the file
)";
constexpr std::string_view kReferenceHead =
    R"(# Settings of the daemon

[uroced.toml](uroced.toml) says more of each key. Live keys change at SIGHUP; a changed limit holds for connections that
open afterwards. An option has the same range in all of its programs. `ninja -C build settings` writes both files.
)";
constexpr std::string_view kUserText =
    "One table for each user with limits of its own, which go before those of [limits]. At most 256.";
constexpr std::string_view kDeviceText =
    "One table for each port, in the order in which EAL finds them: uroce0, uroce1, ... At most 32. A port without a "
    "table "
    "has the defaults.";

std::string with_unit(const Setting& setting, std::string text) {
  if (!setting.unit.empty()) text += fmt::format(" {}", setting.unit);
  return text;
}

bool is_number(const Setting& setting) { return setting.kind == Kind::whole || setting.kind == Kind::real; }

/// The comment above a key of the sample.
std::string comment_of(const Setting& setting) {
  std::string out(setting.text);
  if (is_number(setting)) {
    out += " " + with_unit(setting, settings::range(setting));
    out += setting.zero.empty() ? "." : fmt::format(", or 0 for {}.", setting.zero);
  } else if (setting.kind != Kind::truth) {
    out += fmt::format(" {}: {}.", setting.kind == Kind::word ? "One of" : "Value", settings::range(setting));
  }
  if (!setting.example.empty() && !setting.by_default.empty()) out += fmt::format(" Default: {}.", setting.by_default);
  return setting.live ? out + " [live]" : out;
}

/// The text in lines, each behind `before`.
std::string lines_of(std::string_view text, std::string_view before) {
  std::string out, line;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
    if (!line.empty() && line.size() + 1 + word.size() > kWidth) out += std::exchange(line, "") + '\n';
    line += line.empty() ? fmt::format("{}{}", before, word) : fmt::format(" {}", word);
  }
  return line.empty() ? out : out + line + '\n';
}

std::string comment(std::string_view text) { return lines_of(text, "# "); }

/// A number with a fraction has one in the sample as well where it is whole.
std::string in_file(const Setting& setting, const std::string& shown) {
  return setting.kind == Kind::real && shown.find('.') == std::string::npos ? shown + ".0" : shown;
}

template <class Target>
std::string sample_of(std::string_view name, std::string_view text, std::span<const Field<Target>> fields,
                      bool is_example) {
  std::string out = "\n" + comment(text) + fmt::format("{}{}\n", is_example ? "#" : "", name);
  std::string above;
  for (const auto& field : fields) {
    const Setting& setting = field.setting;
    // Keys with the same comment stand together.
    if (std::string own = comment(comment_of(setting)); own != above) out += above = own;
    const bool is_shown = setting.example.empty() || (!is_example && setting.by_default.empty());
    out += fmt::format("{}{} = {}\n", is_example || !is_shown ? "#" : "", setting.key,
                       is_shown ? in_file(setting, field.show(Target{})) : setting.example);
  }
  return out;
}

std::string option_cell(const Setting& setting) {
  if (setting.option.empty()) return {};
  std::vector<std::string_view> programs;
  if ((setting.programs & settings::kUroced) != 0) programs.emplace_back("uroced");
  if ((setting.programs & settings::kPerf) != 0) programs.emplace_back("uroce_perf");
  if ((setting.programs & settings::kNvmf) != 0) programs.emplace_back("uroce_nvmf");
  return fmt::format("`{}` of {}", setting.option, fmt::join(programs, ", "));
}

/// The cells of a row but the first one.
template <class Target>
std::string cells_of(const Field<Target>& field) {
  const Setting& setting = field.setting;
  std::string by_default(setting.by_default);
  if (by_default.empty()) by_default = fmt::format("`{}`", in_file(setting, field.show(Target{})));
  std::string range = settings::range(setting);
  if (!setting.zero.empty()) range += fmt::format(", or 0 for {}", setting.zero);
  return fmt::format("|{}|{}|{}|{}|{}|{}|\n", by_default, range, setting.unit, setting.live ? "yes" : "",
                     option_cell(setting), settings::help(setting));
}

template <class Target>
std::string reference_of(std::string_view name, std::string_view text, std::span<const Field<Target>> fields) {
  std::string out = fmt::format("\n## {}\n\n", name);
  const std::string_view first = text.substr(0, text.find(". ") + 1);
  if (!text.empty()) out += lines_of(first.empty() ? text : first, "") + '\n';
  out += "|key|default|range|unit|live|option|what it does|\n|---|---|---|---|---|---|---|\n";
  for (std::size_t i = 0; i < fields.size(); ++i) {
    // Keys with the same cells share a row.
    out += i > 0 && cells_of(fields[i]) == cells_of(fields[i - 1]) ? ", " : "|";
    out += fmt::format("`{}.{}`", fields[i].setting.table, fields[i].setting.key);
    const bool is_last = i + 1 == fields.size() || cells_of(fields[i]) != cells_of(fields[i + 1]);
    if (is_last) out += cells_of(fields[i]);
  }
  return out;
}

}  // namespace

std::string settings_sample() {
  std::string out(kSampleHead);
  for (const Section& section : sections()) {
    out += sample_of<Config>(fmt::format("[{}]", section.name), section.text, section.fields, false);
    if (section.name == "limits") out += sample_of<service::UserSettings>("[[user]]", kUserText, user_fields(), true);
  }
  return out + sample_of<DeviceSettings>("[[device]]", kDeviceText, device_fields(), true);
}

std::string settings_reference() {
  std::string out(kReferenceHead);
  for (const Section& section : sections()) {
    out += reference_of<Config>(fmt::format("[{}]", section.name), section.text, section.fields);
    if (section.name == "limits") out += reference_of<service::UserSettings>("[[user]]", kUserText, user_fields());
  }
  return out + reference_of<DeviceSettings>("[[device]]", kDeviceText, device_fields());
}

}  // namespace uroce::daemon
