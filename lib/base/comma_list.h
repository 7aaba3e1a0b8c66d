// Lists whose items stand between commas, as options and settings have them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <vector>

namespace uroce {

/// The parts of `text`, which they refer to: one more than it has commas. An empty text has one, which is empty.
inline std::vector<std::string_view> split_at_commas(std::string_view text) {
  std::vector<std::string_view> parts;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    parts.push_back(text.substr(at, comma - at));
    at = comma + 1;
  }
  return parts;
}

/// The parts without an empty one at the end: an empty text is an empty list, and a comma may end a list.
inline std::vector<std::string_view> items_of_list(std::string_view text) {
  auto items = split_at_commas(text);
  if (items.back().empty()) items.pop_back();
  return items;
}

}  // namespace uroce
