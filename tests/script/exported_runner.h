// Runs a packet script, and then the one that its recording makes.
#pragma once

#include <string>
#include <vector>

#include "tests/script/runner.h"

namespace uroce::test {

class ExportedRunner {
 public:
  explicit ExportedRunner(const Script& script) : script_(script) {}

  /// Throws ScriptError where either does not hold. A script that cannot be written is told, and is no error.
  void run();
  const std::vector<std::string>& trace() const { return trace_; }

 private:
  void run_again(const std::string& text);

  const Script& script_;
  std::vector<std::string> trace_;
};

}  // namespace uroce::test
