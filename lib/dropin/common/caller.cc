#include "dropin/common/caller.h"

#include <dlfcn.h>
#include <elf.h>
#include <execinfo.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
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

struct Caller {
  uintptr_t returns_to;
  Dl_info found;
};

/// The nearest frame outside the drop-in libraries.
std::optional<Caller> find_caller() {
  std::array<void*, 48> frames;
  const int count = backtrace(frames.data(), static_cast<int>(frames.size()));
  Dl_info own{};
  dladdr(reinterpret_cast<const void*>(&find_caller), &own);
  bool reached = false;
  for (int i = 0; i < count; ++i) {
    const auto address = reinterpret_cast<uintptr_t>(frames[static_cast<std::size_t>(i)]);
    Dl_info found{};
    if (dladdr(frames[static_cast<std::size_t>(i)], &found) == 0 || found.dli_fname == nullptr) continue;
    // A library that wraps backtrace(), such as libasan, has the frames above ours.
    reached = reached || found.dli_fbase == own.dli_fbase;
    if (reached && !is_ours(name_of(found.dli_fname))) return Caller{address, found};
  }
  return std::nullopt;
}

}  // namespace

bool is_expected_by(std::string_view library, int code) {
  if (code != EINVAL && code != EOPNOTSUPP && code != ENOSYS) return false;
  return library.ends_with("-fi.so") ||
         std::ranges::any_of(kProbing, [library](std::string_view known) { return library.starts_with(known); });
}

std::optional<std::string> calling_object() {
  const auto caller = find_caller();
  return caller ? std::optional(std::string(name_of(caller->found.dli_fname))) : std::nullopt;
}

std::string calling_place() {
  const auto caller = find_caller();
  if (!caller) return "an unknown place";
  const Dl_info& found = caller->found;
  // A program that is no PIE is linked to its addresses (elf(5)).
  const bool fixed = static_cast<const Elf64_Ehdr*>(found.dli_fbase)->e_type == ET_EXEC;
  const auto base = fixed ? 0 : reinterpret_cast<uintptr_t>(found.dli_fbase);
  std::array<char, 32> number;
  // The call ends before the address to which it returns.
  std::snprintf(number.data(), number.size(), "+%#zx", static_cast<std::size_t>(caller->returns_to - base - 1));
  const std::string place = std::string(name_of(found.dli_fname)) + number.data();
  return found.dli_sname != nullptr ? place + " (" + found.dli_sname + ")" : place;
}

}  // namespace uroce::dropin
