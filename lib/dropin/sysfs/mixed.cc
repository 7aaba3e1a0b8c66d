// Says when a program has another libibverbs or librdmacm than uroce-run's: the distribution's find no device of uroce.
// Looks when the program starts, and at its end for what it loaded meanwhile.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string_view>

namespace {

constexpr std::size_t kPath = 4096;
constexpr std::string_view kBuilt = "/lib/dropin/";

struct Library {
  const char* name;
  const char* folder;  ///< in a build folder
  const char* effect;
  bool said;
};

Library libraries[] = {
    {"libibverbs.so.1", "ibverbs", "it finds no device of uroce", false},
    {"librdmacm.so.1", "rdmacm", "rdma_cm finds no device of uroce", false},
};

/// Calls `look` with the path of this library in each folder that uroce-run names, until it returns true.
template <class Look>
bool any_folder(const Library& library, Look look) {
  const char* const named = std::getenv("UROCE_LIBRARIES");
  for (std::string_view rest(named != nullptr ? named : ""); !rest.empty();) {
    const std::string_view folder = rest.substr(0, rest.find(':'));
    rest.remove_prefix(folder.size() + (folder.size() < rest.size() ? 1 : 0));
    char path[kPath];
    std::snprintf(path, sizeof path, "%.*s/%s", static_cast<int>(folder.size()), folder.data(), library.name);
    if (look(path, folder)) return true;
  }
  return false;
}

void say(Library& library, const char* loaded) {
  library.said = true;
  std::fprintf(stderr, "uroce: %s has %s in place of uroce's, so %s. ", program_invocation_short_name, loaded,
               library.effect);
  const bool there = any_folder(library, [](const char* path, std::string_view) {
    if (access(path, R_OK) != 0) return false;
    std::fprintf(stderr, "Its own RPATH or LD_LIBRARY_PATH goes before uroce-run's: take it away, so that it gets %s\n",
                 path);
    return true;
  });
  if (there) return;
  any_folder(library, [&](const char* path, std::string_view folder) {
    const std::size_t build = folder.rfind(kBuilt);
    if (build == std::string_view::npos) {
      std::fprintf(stderr, "%s is missing: install the package uroce-verbs again\n", path);
      return true;
    }
    if (!folder.ends_with(library.folder)) return false;
    std::fprintf(stderr, "%s is missing: build it with `ninja -C %.*s %s`\n", path, static_cast<int>(build), path,
                 path + build + 1);
    return true;
  });
}

/// Where the program has loaded each of `libraries` from; empty where it has not.
using Loaded = char[std::size(libraries)][kPath];

// The loader holds a lock here, which another thread may wait for that loads a library: no call of dlsym(3), which
// waits for that thread's lock.
int note_library(dl_phdr_info* info, std::size_t, void* notes) {
  auto& loaded = *static_cast<Loaded*>(notes);
  const char* const slash = std::strrchr(info->dlpi_name, '/');
  for (std::size_t i = 0; slash != nullptr && i < std::size(libraries); ++i) {
    const std::size_t length = std::strlen(info->dlpi_name);
    if (length >= kPath || !std::string_view(slash + 1).starts_with(libraries[i].name)) continue;
    std::memcpy(loaded[i], info->dlpi_name, length + 1);
  }
  return 0;
}

void look_at(Library& library, const char* path_loaded) {
  struct stat loaded{};
  if (library.said || stat(path_loaded, &loaded) != 0) return;
  const bool ours = any_folder(library, [&](const char* path, std::string_view) {
    struct stat own{};
    return stat(path, &own) == 0 && own.st_dev == loaded.st_dev && own.st_ino == loaded.st_ino;
  });
  if (!ours) say(library, path_loaded);
}

[[gnu::constructor]] [[gnu::destructor]] void look_for_mixed_libraries() {
  if (std::getenv("UROCE_LIBRARIES") == nullptr) return;
  const int kept = errno;
  Loaded loaded{};
  dl_iterate_phdr(note_library, &loaded);
  for (std::size_t i = 0; i < std::size(libraries); ++i) {
    if (loaded[i][0] != '\0') look_at(libraries[i], loaded[i]);
  }
  errno = kept;
}

}  // namespace
