#include "faults/values.h"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <optional>

namespace uroce::faults {

namespace {

struct Unit {
  std::string_view name;
  double factor;
};
constexpr std::array<Unit, 4> kTimes{{{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}}};
constexpr std::array<Unit, 3> kRates{{{"kbit", 1e3}, {"Mbit", 1e6}, {"Gbit", 1e9}}};
constexpr double kLongest = 60e9, kSlowest = 1e3, kFastest = 1e12;

/// A number without a sign, and what follows it.
std::optional<std::pair<double, std::string_view>> split_number(std::string_view text) {
  double value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  if (error != std::errc() || !std::isfinite(value) || text.starts_with('-')) return std::nullopt;
  return std::pair(value, text.substr(static_cast<std::size_t>(rest - text.data())));
}

std::optional<double> with_unit(std::string_view text, std::span<const Unit> units) {
  const auto parts = split_number(text);
  if (!parts) return std::nullopt;
  for (const Unit& unit : units) {
    if (unit.name == parts->second) return parts->first * unit.factor;
  }
  return std::nullopt;
}

std::optional<uint64_t> whole(std::string_view text) {
  const bool hex = text.starts_with("0x");
  const std::string_view digits = hex ? text.substr(2) : text;
  uint64_t value = 0;
  const auto [rest, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, hex ? 16 : 10);
  if (error != std::errc() || rest != digits.data() + digits.size()) return std::nullopt;
  return value;
}

}  // namespace

Result<uint64_t> read_number(std::string_view text, uint64_t least, uint64_t most) {
  const auto value = whole(text);
  if (value && *value >= least && *value <= most) return *value;
  if (most == UINT64_MAX) return fail(EINVAL, fmt::format("it must be a whole number, {} at least", least));
  return fail(EINVAL, fmt::format("it must be a whole number from {} to {}", least, most));
}

Result<Span<uint64_t>> read_range(std::string_view text, uint64_t least, uint64_t most, bool wrap) {
  const auto dash = text.find('-');
  const auto first = read_number(text.substr(0, dash), least, most);
  if (!first) return fail(EINVAL, first.error().text + ", or two of them like 5-9");
  if (dash == std::string_view::npos) return Span<uint64_t>{*first, *first};
  const auto last = read_number(text.substr(dash + 1), least, most);
  if (!last) return fail(EINVAL, last.error().text + ", or two of them like 5-9");
  if (*last < *first && !wrap) return fail(EINVAL, "the end of the range lies before its beginning");
  return Span<uint64_t>{*first, *last};
}

Result<Nanos> read_time(std::string_view text) {
  const auto value = with_unit(text, kTimes);
  if (value && *value >= 1 && *value <= kLongest) return Nanos(static_cast<int64_t>(*value));
  return fail(EINVAL, "it must be a time with its unit (ns, us, ms, s) like 5ms, 60s at most");
}

Result<uint64_t> read_rate(std::string_view text) {
  const auto value = with_unit(text, kRates);
  if (value && *value >= kSlowest && *value <= kFastest) return static_cast<uint64_t>(*value);
  return fail(EINVAL, "it must be bits a second with their unit (kbit, Mbit, Gbit) like 1Gbit, from 1kbit to 1000Gbit");
}

Result<double> read_probability(std::string_view text) {
  const auto value = with_unit(text, std::array<Unit, 1>{{{"", 1}}});
  if (value && *value > 0 && *value <= 1) return *value;
  return fail(EINVAL, "it must be a number above 0, 1 at most, like 0.01");
}

}  // namespace uroce::faults
