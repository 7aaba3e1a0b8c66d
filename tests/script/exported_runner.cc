#include "tests/script/exported_runner.h"

#include <fmt/format.h>

#include <cstdio>
#include <sstream>

#include "record/script_writer.h"

namespace uroce::test {
namespace {

constexpr uint32_t kQpn = 0x11;

}  // namespace

void ExportedRunner::run() {
  Runner first(script_, true, true);
  first.run();
  const auto written = record::write_script(first.records(), kQpn, script_.name);
  const std::string why = !written ? written.error().text : written->left_out.empty() ? "" : written->left_out.front();
  if (why.empty()) return run_again(written->text);
  const bool fails = !written && written.error().code != EOPNOTSUPP && written.error().code != ENOENT;
  if (fails) throw ScriptError{0, fmt::format("no script can be written of it: {}", why)};
  std::printf("     [%s] is not written: %s\n", script_.name.c_str(), why.c_str());
}

void ExportedRunner::run_again(const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) trace_.push_back(line);
  std::istringstream in(text);
  for (const Script& script : read_scripts(in, script_.file)) {
    Runner again(script);
    try {
      again.run();
    } catch (const ScriptError& error) {
      trace_.insert(trace_.end(), again.trace().begin(), again.trace().end());
      const std::string line = error.line > 0 ? trace_[static_cast<std::size_t>(error.line) - 1] : "";
      throw ScriptError{
          0, fmt::format("what its recording makes does not hold in line {} ({}): {}", error.line, line, error.text)};
    }
  }
}

}  // namespace uroce::test
