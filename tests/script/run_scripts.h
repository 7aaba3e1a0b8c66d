// The program around a kind of script: NAME [-v] [-k part-of-name] FILE... runs every script of the files; the first
// line that does not hold fails a script.
#pragma once

#include <cstdio>
#include <cstring>
#include <string>

#include "tests/script/script.h"

namespace uroce::test {

/// `Runner` is made from a script, runs it, throwing ScriptError, and has a trace().
template <class Runner>
bool run_script(const Script& script, bool verbose) {
  Runner runner(script);
  try {
    runner.run();
  } catch (const ScriptError& error) {
    std::printf("FAIL %s:%d: [%s] %s\n", script.file.c_str(), error.line, script.name.c_str(), error.text.c_str());
    for (const auto& line : script.lines) {
      if (line.number == error.line) std::printf("     line: %s\n", line.text.c_str());
    }
    for (const std::string& line : runner.trace()) std::printf("     %s\n", line.c_str());
    return false;
  }
  if (verbose) {
    std::printf("ok   [%s]\n", script.name.c_str());
    for (const std::string& line : runner.trace()) std::printf("     %s\n", line.c_str());
  }
  return true;
}

template <class Runner>
int run_scripts(int argc, char** argv) {
  bool verbose = false;
  const char* only = nullptr;
  int scripts = 0;
  int failed = 0;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "-v") == 0) {
      verbose = true;
      continue;
    }
    if (std::strcmp(argv[i], "-k") == 0 && i + 1 < argc) {
      only = argv[++i];
      continue;
    }
    try {
      for (const auto& script : load_scripts(argv[i])) {
        if (only != nullptr && script.name.find(only) == std::string::npos) continue;
        ++scripts;
        failed += run_script<Runner>(script, verbose) ? 0 : 1;
      }
    } catch (const ScriptError& error) {
      std::printf("FAIL %s:%d: %s\n", argv[i], error.line, error.text.c_str());
      ++failed;
    }
  }
  std::printf("%d scripts, %d failed\n", scripts, failed);
  return failed == 0 && scripts > 0 ? 0 : 1;
}

}  // namespace uroce::test
