#include "uroce/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

namespace uroce::cli {

namespace {

std::string in_units(double value, double step, std::span<const std::string_view> units) {
  std::size_t unit = 0;
  // A value that would be rounded up to a whole step takes the next unit.
  while (value >= step - 0.5 && unit + 1 < units.size()) {
    value /= step;
    ++unit;
  }
  const bool whole = unit == 0 || value >= 99.95;
  return fmt::format("{:.{}f}{}", value, whole ? 0 : 1, units[unit]);
}

}  // namespace

std::string table(const std::vector<Column>& columns, const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const Column& column : columns) widths.push_back(column.title.size());
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < columns.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string out;
  const auto line = [&](auto&& cell_of) {
    std::string text;
    for (std::size_t i = 0; i < columns.size(); ++i) {
      if (i > 0) text += "  ";
      text += columns[i].right ? fmt::format("{:>{}}", cell_of(i), widths[i])
                               : fmt::format("{:<{}}", cell_of(i), widths[i]);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    out += text + '\n';
  };
  line([&](std::size_t i) { return columns[i].title; });
  for (const auto& row : rows) {
    line([&](std::size_t i) -> const std::string& { return row[i]; });
  }
  return out;
}

std::string printable(std::string_view text) {
  std::string out(text);
  std::ranges::replace_if(out, [](char c) { return c < ' ' || c > '~'; }, '?');
  return out;
}

std::string bytes_text(uint64_t bytes) {
  constexpr std::array<std::string_view, 6> kUnits{" B", " KiB", " MiB", " GiB", " TiB", " PiB"};
  return in_units(static_cast<double>(bytes), 1024, kUnits);
}

std::string short_number(double value) {
  constexpr std::array<std::string_view, 5> kUnits{"", " k", " M", " G", " T"};
  return in_units(value, 1000, kUnits);
}

}  // namespace uroce::cli
