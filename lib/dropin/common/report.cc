#include "dropin/common/report.h"

#include <cstdio>
#include <cstdlib>

#include "base/no_cancel.h"

namespace uroce::dropin {

int report(const Error& error) {
  if (std::getenv("UROCE_VERBOSE") != nullptr) {
    const NoCancel guard;
    std::fprintf(stderr, "uroce: %s\n", error.text.c_str());
  }
  return errno = error.code;
}

}  // namespace uroce::dropin
