#include "dropin/common/caller.h"

#include <dlfcn.h>
#include <execinfo.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace uroce::dropin {

namespace {

/// libfabric's providers may be files of their own, NAME-fi.so.
constexpr std::array<std::string_view, 8> kProbing = {
    "libfabric.so", "libuct", "libucp.so", "libucs.so", "mca_btl_", "mca_common_", "libmca_common_", "libopen-pal.so"};

std::string_view name_of(const char* path) {
  const char* slash = std::strrchr(path, '/');
  return slash != nullptr ? slash + 1 : path;
}

bool is_ours(std::string_view object) {
  return object.starts_with("libibverbs.so") || object.starts_with("librdmacm.so");
}

}  // namespace

bool is_expected_by(std::string_view library, int code) {
  if (code != EINVAL && code != EOPNOTSUPP && code != ENOSYS) return false;
  return library.ends_with("-fi.so") ||
         std::ranges::any_of(kProbing, [library](std::string_view known) { return library.starts_with(known); });
}

std::optional<std::string> calling_object() {
  std::array<void*, 48> frames;
  const int count = backtrace(frames.data(), static_cast<int>(frames.size()));
  Dl_info own{};
  dladdr(reinterpret_cast<const void*>(&calling_object), &own);
  bool reached = false;
  for (int i = 0; i < count; ++i) {
    Dl_info found{};
    if (dladdr(frames[static_cast<std::size_t>(i)], &found) == 0 || found.dli_fname == nullptr) continue;
    // A library that wraps backtrace(), such as libasan, has the frames above ours.
    reached = reached || found.dli_fbase == own.dli_fbase;
    if (!reached) continue;
    if (const auto object = name_of(found.dli_fname); !is_ours(object)) return std::string(object);
  }
  return std::nullopt;
}

}  // namespace uroce::dropin
