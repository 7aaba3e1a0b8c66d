#include <cstdlib>

#include "tests/script/exported_runner.h"
#include "tests/script/run_scripts.h"
#include "tests/script/runner.h"

namespace {

using namespace uroce::test;

/// Everything goes the general way.
struct GeneralRunner : Runner {
  explicit GeneralRunner(const Script& script) : Runner(script, false) {}
};

}  // namespace

// Each script runs twice: an engine behaves the same with the shortcuts for plain packets and without them.
int main(int argc, char** argv) {
  if (std::getenv("UROCE_TEST_EXPORT") != nullptr) return run_scripts<ExportedRunner>(argc, argv);
  const int shortcuts = run_scripts<Runner>(argc, argv);
  const int general = run_scripts<GeneralRunner>(argc, argv);
  return shortcuts != 0 ? shortcuts : general;
}
