#include "dropin/sysfs/path.h"

#include <cstdlib>
#include <cstring>

namespace uroce::dropin {

namespace {

/// The rest of `path` after slashes and `word`; a null view where `path` does not begin with them.
std::string_view after(std::string_view path, std::string_view word) {
  const std::size_t start = path.find_first_not_of('/');
  if (start == 0 || start == path.npos || !path.substr(start).starts_with(word)) return {};
  return path.substr(start + word.size());
}

}  // namespace

std::string_view redirected_part(std::string_view path) {
  const std::string_view from_class = after(path, "sys");
  const std::string_view rest = after(after(from_class, "class"), "infiniband");
  if (rest.data() == nullptr) return {};
  return rest.empty() || rest[0] == '/' || rest[0] == '_' ? from_class : std::string_view{};
}

RedirectedPath::RedirectedPath(const char* path) : path_(path) {
  if (path == nullptr || path[0] != '/') return;
  const std::string_view part = redirected_part(path);
  if (part.empty()) return;
  const char* tree = std::getenv("UROCE_SYSFS");
  if (tree == nullptr) return;
  const std::size_t length = std::strlen(tree);
  if (length + part.size() >= buffer_.size()) return;
  std::memcpy(buffer_.data(), tree, length);
  std::memcpy(buffer_.data() + length, part.data(), part.size());
  buffer_[length + part.size()] = '\0';
  path_ = buffer_.data();
}

}  // namespace uroce::dropin
