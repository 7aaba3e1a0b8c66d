#include "places.h"

#include <unistd.h>

#include <cstdlib>
#include <sstream>
#include <string>

namespace uroce::run {

namespace fs = std::filesystem;

namespace {

constexpr const char* kVerbs = "libibverbs.so.1";
constexpr const char* kRedirector = "liburoce-sysfs.so";

/// PATH may name folders that this user may not search.
bool runnable(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored) && access(path.c_str(), X_OK) == 0;
}

fs::path find_daemon(const fs::path& here) {
  for (const fs::path& path : {here / "../uroced/uroced", here / "uroced"}) {
    if (runnable(path)) return fs::weakly_canonical(path);
  }
  const char* search = std::getenv("PATH");
  std::istringstream folders(search != nullptr ? search : "");
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (runnable(fs::path(folder) / "uroced")) return fs::path(folder) / "uroced";
  }
  return {};
}

}  // namespace

std::optional<Places> find_places() {
  std::error_code ignored;
  const fs::path here = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  const fs::path build = here / "../../lib/dropin";
  const fs::path installed = here / UROCE_LIBRARIES_FROM_BIN;
  Places places;
  places.daemon = find_daemon(here);
  if (fs::exists(build / "ibverbs" / kVerbs)) {
    for (const char* folder : {"ibverbs", "rdmacm"}) places.libraries.push_back(fs::weakly_canonical(build / folder));
    places.redirector = build / "sysfs" / kRedirector;
  } else if (fs::exists(installed / kVerbs)) {
    places.libraries.push_back(fs::canonical(installed));
    places.redirector = installed / kRedirector;
  }
  if (places.libraries.empty() || !fs::exists(places.redirector)) return std::nullopt;
  places.redirector = fs::canonical(places.redirector);
  return places;
}

}  // namespace uroce::run
