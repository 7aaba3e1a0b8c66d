#include "dropin/sysfs/path.h"

#include <cstdlib>
#include <cstring>

namespace uroce::dropin {

namespace {

constexpr std::string_view kClasses = "/sys";  // in the tree: nothing before /class

/// The rest of `path` after slashes and `word`; a null view where `path` does not begin with them.
std::string_view after(std::string_view path, std::string_view word) {
  const std::size_t start = path.find_first_not_of('/');
  if (start == 0 || start == path.npos) return {};
  path.remove_prefix(start);
  if (!path.starts_with(word)) return {};
  path.remove_prefix(word.size());
  return path;
}

bool ends_a_word(std::string_view rest) { return rest.empty() || rest[0] == '/'; }

}  // namespace

std::string_view redirected_part(std::string_view path) {
  const std::string_view from_class = after(path, "sys");
  const std::string_view rest = after(after(from_class, "class"), "infiniband");
  if (rest.data() != nullptr && (ends_a_word(rest) || rest[0] == '_')) return from_class;
  const std::string_view below_device = after(after(path, "dev"), "infiniband");
  return below_device.data() != nullptr && ends_a_word(below_device) ? path : std::string_view{};
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
  const std::string_view in_devices = after(after(part, "dev"), "infiniband");
  is_device_ = in_devices.find_first_not_of('/') != in_devices.npos;
  is_counter_ = part.find("counters/") != part.npos;  // and hw_counters/
  path_ = buffer_.data();
}

char* restore_path(char* path) {
  const char* tree = std::getenv("UROCE_SYSFS");
  if (path == nullptr || tree == nullptr) return path;
  const std::string_view whole = path;
  if (!whole.starts_with(tree)) return path;
  const std::string_view part(path + std::strlen(tree));
  const std::string_view before = part.starts_with("/class/infiniband") ? kClasses : "";
  // A name that became longer might not fit its buffer.
  if (before.size() > std::strlen(tree) || (before.empty() && redirected_part(part).empty())) return path;
  std::memmove(path + before.size(), part.data(), part.size() + 1);
  std::memcpy(path, before.data(), before.size());
  return path;
}

}  // namespace uroce::dropin
