// The command line that the random simulations share.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace uroce::test {

struct Options {
  uint64_t seed = 1;
  uint64_t runs = 1;
  uint64_t ops = 0;  ///< --ops; what one run does, where that varies
  bool verbose = false;
  bool trace = false;
};

/// `defaults`, changed by -v, --trace, --seed N, --runs N and --ops N. UROCE_SIM_SEED asks for one run of that seed.
inline Options parse_options(int argc, char** argv, Options defaults) {
  Options o = defaults;
  if (const char* from_env = std::getenv("UROCE_SIM_SEED")) {
    o.seed = std::strtoull(from_env, nullptr, 0);
    o.runs = 1;
  }
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "-v") == 0) o.verbose = true;
    if (std::strcmp(argv[i], "--trace") == 0) o.trace = true;
    if (i + 1 >= argc) break;
    if (std::strcmp(argv[i], "--seed") == 0) o.seed = std::strtoull(argv[i + 1], nullptr, 0);
    if (std::strcmp(argv[i], "--runs") == 0) o.runs = std::strtoull(argv[i + 1], nullptr, 0);
    if (std::strcmp(argv[i], "--ops") == 0) o.ops = std::strtoull(argv[i + 1], nullptr, 0);
  }
  return o;
}

}  // namespace uroce::test
