#include "pmd_glue/link_note.h"

#include <utility>

#include <fmt/format.h>

namespace uroce::glue {

std::optional<std::string> LinkNote::look(const std::string& name, bool up, Nanos now) {
  if (!told_) told_ = last_ = up;
  if (std::exchange(last_, up) != up) ++changes_;
  if (changes_ == 0 || now < quiet_until_) return std::nullopt;
  const uint32_t changes = std::exchange(changes_, 0);
  const bool same = std::exchange(told_, up) == up;
  quiet_until_ = now + kInterval;
  std::string line = fmt::format("{}: the link is {}", name, up ? "up" : "down");
  if (!up) line += "; nothing is sent or received until it is up";
  if (changes > 1 || same) line += fmt::format(" (it changed {} times)", changes);
  return line;
}

}  // namespace uroce::glue
