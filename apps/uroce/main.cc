// uroce: the operator's view of the daemon.
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <exception>
#include <optional>

#include "client/daemon_link.h"
#include "uroce/capture.h"
#include "uroce/command_line.h"
#include "uroce/daemon_process.h"
#include "uroce/doctor.h"
#include "uroce/doctor_facts.h"
#include "uroce/explain.h"
#include "uroce/fault.h"
#include "uroce/fetch.h"
#include "uroce/ping.h"
#include "uroce/record_dump.h"
#include "uroce/replay.h"
#include "uroce/show.h"
#include "uroce/terminal.h"
#include "uroce/trace.h"
#include "uroce/watch.h"

namespace {

using namespace uroce;
using namespace uroce::cli;

constexpr int kOk = 0, kFailed = 1;

template <class Row>
Result<void> show(const Result<std::vector<Row>>& rows, bool json) {
  if (!rows) return std::unexpected(rows.error());
  fmt::print("{}", json ? to_json(*rows) + '\n' : to_table(*rows));
  return {};
}

/// The rows that the filter chooses, as wide as the terminal.
template <class Row>
Result<void> show_chosen(Result<std::vector<Row>> rows, const Options& o) {
  if (!rows) return std::unexpected(rows.error());
  std::erase_if(*rows, [&o](const Row& row) { return !chooses(o.filter, row); });
  fmt::print("{}", o.json ? to_json(*rows) + '\n' : to_table(*rows, columns_of_output()));
  return {};
}

Result<void> run(const Options& o) {
  switch (o.command) {
    case Command::devices:
      if (auto found = o.here ? find_here(o.source) : Result<void>(); !found) return found;
      return show(fetch_devices(o.source), o.json);
    case Command::show_objects: return show_chosen(fetch_objects(o.source, o.objects->kind), o);
    case Command::show_client: return show_chosen(fetch_clients(o.source), o);
    case Command::show_user: return show(fetch_users(o.source), o.json);
    case Command::show_peer: return show(fetch_peers(o.source), o.json);
    case Command::show_restart: {
      const auto row = fetch_restart(o.source);
      if (!row) return std::unexpected(row.error());
      fmt::print("{}", o.json ? to_json(*row) + '\n' : to_table(*row));
      return {};
    }
    case Command::stat: return run_stat(o);
    case Command::top: return run_top(o);
    case Command::capture: return run_capture(o);
    case Command::trace: return run_trace(o);
    case Command::ping: return o.answer ? run_ping_answer(o) : run_ping(o);
    case Command::explain: return run_explain(o);
    case Command::fault_add: return run_fault_add(o);
    case Command::fault_list: return run_fault_list(o);
    case Command::fault_clear: return run_fault_clear(o);
    case Command::record_dump: return run_record_dump(o);
    case Command::replay: return run_replay(o);
    case Command::fault_words: print_fault_words(); return {};
    case Command::doctor: break;  // has an exit code of its own
  }
  return {};
}

/// Says what the tool waits for: once for a daemon that stands still, not for each call that finds it so.
void say_waiting(const client::SlowCall& call) {
  using Clock = std::chrono::steady_clock;
  static std::optional<Clock::time_point> said;
  const auto now = Clock::now();
  const bool again = said && now - *said < call.limit;
  said = now;
  if (again) return;
  fmt::print(
      stderr, "uroce: {}\n",
      waiting_text(call.socket, call.process, stopped_process(call.process), static_cast<int>(call.limit.count())));
}

int run_doctor(const Options& o) {
  const auto findings = judge(gather_facts(o.source));
  fmt::print("{}", o.json ? findings_json(findings) + '\n' : findings_text(findings));
  return something_is_bad(findings) ? kFailed : kOk;
}

int start(int argc, char** argv) {
  const auto options = parse_command_line(argc, argv);
  if (!options) {
    fmt::print(options.error().code == kOk ? stdout : stderr, "{}\n", options.error().text);
    return options.error().code;
  }
  client::watch_slow_calls(say_waiting);
  if (options->command == Command::doctor) return run_doctor(*options);
  const auto done = run(*options);
  if (done) return kOk;
  std::fflush(stdout);
  fmt::print(stderr, "uroce: {}\n", done.error().text);
  return kFailed;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return start(argc, argv);
  } catch (const std::exception& e) {
    fmt::print(stderr, "uroce: ended by an exception: {}\n", e.what());
    return kFailed;
  }
}
