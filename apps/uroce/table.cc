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

namespace {

/// The columns and cells without one column.
void leave_out(std::size_t gone, std::vector<Column>& columns, std::vector<std::vector<std::string>>& rows) {
  const auto at = static_cast<std::ptrdiff_t>(gone);
  columns.erase(columns.begin() + at);
  for (auto& row : rows) row.erase(row.begin() + at);
}

}  // namespace

std::string cut_lines(std::string_view text, std::size_t columns) {
  if (columns == 0) return std::string(text);
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    out += std::string(text.substr(at, std::min(end - at, columns))) + '\n';
    at = end + 1;
  }
  return out;
}

std::string table(std::vector<Column> columns, std::vector<std::vector<std::string>> rows, Fit fit) {
  for (;;) {
    std::string text = table(columns, rows);
    const std::string shortened = cut_lines(text, fit.columns);
    if (shortened == text || fit.spare.empty()) return shortened;
    const std::size_t gone = fit.spare.front();
    leave_out(gone, columns, rows);
    fit.spare.erase(fit.spare.begin());
    for (std::size_t& index : fit.spare) index -= index > gone ? 1 : 0;
  }
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

std::string age_text(uint64_t ms) {
  if (ms < 10'000) return fmt::format("{:.1f} s ago", static_cast<double>(ms) / 1e3);
  const uint64_t s = ms / 1000;
  if (s < 600) return fmt::format("{} s ago", s);
  return s < 36'000 ? fmt::format("{} min ago", s / 60) : fmt::format("{} h ago", s / 3600);
}

}  // namespace uroce::cli
