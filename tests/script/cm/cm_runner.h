// Runs one script against one connection manager: the script is its peer and its application.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/script/script.h"
#include "tests/support/cm_host.h"

namespace uroce::test {

class CmRunner {
 public:
  explicit CmRunner(const Script& script) : script_(script) {}

  /// Throws ScriptError at the first line that does not hold, and at the end when something is left unexpected.
  void run();
  const std::vector<std::string>& trace() const { return trace_; }

 private:
  using Command = void (CmRunner::*)(const ScriptLine&);
  static const std::map<std::string, Command>& commands();

  void do_set(const ScriptLine& line);
  void do_listen(const ScriptLine& line);
  void do_stop(const ScriptLine& line);
  void do_connect(const ScriptLine& line);
  /// accept, ready, reject, delivered, disconnect, notify, destroy.
  void do_call(const ScriptLine& line);
  void do_receive(const ScriptLine& line);
  void do_expect(const ScriptLine& line);
  void do_event(const ScriptLine& line);
  void do_quiet(const ScriptLine& line);
  void do_size(const ScriptLine& line);
  void do_counter(const ScriptLine& line);
  void do_known(const ScriptLine& line);

  void open();
  void advance(const ScriptLine& line);
  void collect();
  void note(const std::string& what);
  std::string leftovers() const;
  uint64_t setting(const std::string& key, uint64_t fallback) const;
  Result<void> call(const ScriptLine& line, Words& words, uint32_t id);
  cm::CmRequest request_from(Words& words) const;

  const Script& script_;
  std::vector<std::string> trace_;
  std::map<std::string, uint64_t> settings_;
  Symbols symbols_;
  Nanos now_{1'000'000};
  std::unique_ptr<CmHost> host_;
  std::deque<SentMad> sent_;
  std::deque<cm::CmMessage> events_;
};

}  // namespace uroce::test
