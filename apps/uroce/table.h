// Text in columns.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace uroce::cli {

struct Column {
  std::string_view title;
  bool right = false;
};
constexpr bool kRight = true;  ///< columns of numbers

/// A title line and a line for each row. Columns are as wide as needed, and lines have no spaces at their end. A row
/// has as many cells as there are columns.
std::string table(const std::vector<Column>& columns, const std::vector<std::vector<std::string>>& rows);

/// `text` with each line, which ends in a newline, cut to `columns`; 0: no limit.
std::string cut_lines(std::string_view text, std::size_t columns);

/// The room for a table.
struct Fit {
  std::size_t columns = 0;           ///< of the screen; 0: no limit
  std::vector<std::size_t> spare{};  ///< indices of columns that may be left out, the first of them first
};
/// The same without the columns that do not fit. Lines that are still too long are cut.
std::string table(std::vector<Column> columns, std::vector<std::vector<std::string>> rows, Fit fit);

/// `text` made safe for a terminal: bytes that are not printable ASCII become '?'.
std::string printable(std::string_view text);

/// "1.5 GiB", "512 B".
std::string bytes_text(uint64_t bytes);
/// "1.5 s ago", "12 min ago".
std::string age_text(uint64_t ms);
/// "12.3 M", "950": a count in about three digits.
std::string short_number(double value);

}  // namespace uroce::cli
