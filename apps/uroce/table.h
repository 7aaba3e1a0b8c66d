// Text in columns.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace uroce::cli {

struct Column {
  std::string_view title;
  bool right = false;  ///< numbers
};

/// A title line and a line for each row, columns as wide as they need; no spaces at the end of lines. A row has as many
/// cells as there are columns.
std::string table(const std::vector<Column>& columns, const std::vector<std::vector<std::string>>& rows);

/// `text` fit for a terminal, of whoever it comes: bytes that are no printable ASCII become '?'.
std::string printable(std::string_view text);

/// "1.5 GiB", "512 B".
std::string bytes_text(uint64_t bytes);
/// "12.3 M", "950": a count in three digits or so.
std::string short_number(double value);

}  // namespace uroce::cli
