#include "validate/options.h"

#include <algorithm>
#include <string_view>

namespace uroce::validate {

Options parse_options(const std::string& value) {
  constexpr std::string_view kFile = "file:";
  Options options;
  if (value.empty() || value == "0") return options;
  options.on = true;
  for (std::string_view left = value; !left.empty();) {
    if (left.starts_with(kFile)) {
      options.file = left.substr(kFile.size());
      break;
    }
    const std::string word(left.substr(0, left.find(',')));
    left.remove_prefix(std::min(word.size() + 1, left.size()));
    const auto allowed = word.starts_with('-') ? misuse_of(std::string_view(word).substr(1)) : std::nullopt;
    if (word == "notes") {
      options.notes = true;
    } else if (allowed) {
      options.allowed.insert(*allowed);
    } else if (word != "1" && options.unknown.empty()) {
      options.unknown = word;
    }
  }
  return options;
}

}  // namespace uroce::validate
