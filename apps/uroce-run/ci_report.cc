#include "ci_report.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <ostream>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "client/fetch_rows.h"
#include "descendants.h"
#include "message/operator_messages.h"

namespace uroce::run {

namespace {

using namespace std::chrono_literals;
using message::Op;

constexpr auto kProgramsEnd = 2s;
constexpr auto kAskAgain = 20ms;
constexpr const char* kProcess = ", process ";
constexpr const char* kMisuse = "misuse ";
constexpr const char* kRefused = "refused: ";
constexpr const char* kTimes = " (";
constexpr std::size_t kLongestName = 15;

template <class Rows>
auto all_rows(client::DaemonLink& daemon, Op op, auto request, auto go_on) {
  auto rows = client::fetch_rows<Rows>(daemon, op, request, go_on);
  if (!rows) throw std::runtime_error("the daemon does not tell what happened: " + rows.error().text);
  return std::move(*rows);
}

std::string name_of(const auto& row) { return row.command + kProcess + std::to_string(row.pid); }

/// A note is no misuse.
bool misused(const CiProgram& program) {
  return std::ranges::any_of(program.misuses, [](const std::string& text) { return text.starts_with(kMisuse); });
}

std::string quoted(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      // XML 1.0 has no other control characters (2.2).
      default: out += static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t' ? '?' : c;
    }
  }
  return out;
}

std::string joined(const std::vector<std::string>& words, const char* between) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : between) + word;
  return out;
}

void add_case(std::ostream& out, const std::string& name, const std::string& text, bool fails) {
  out << "  <testcase classname=\"uroce-run\" name=\"" << quoted(name) << '"';
  if (text.empty()) {
    out << "/>\n";
  } else if (fails) {
    out << ">\n    <failure message=\"" << quoted(text.substr(0, text.find('\n'))) << "\">" << quoted(text)
        << "</failure>\n  </testcase>\n";
  } else {
    out << ">\n    <system-out>" << quoted(text) << "</system-out>\n  </testcase>\n";
  }
}

}  // namespace

bool set_fail_on(CiOptions& options, const std::string& words) {
  std::istringstream in(words);
  for (std::string word; std::getline(in, word, ',');) {
    if (word == "left") {
      options.fail_on_left = true;
    } else if (word == "troubles") {
      options.fail_on_troubles = true;
    } else if (word == "misuse") {
      options.fail_on_misuses = true;
    } else {
      return false;
    }
  }
  return !words.empty();
}

std::vector<CiReport::Running> CiReport::running_programs(client::DaemonLink& daemon) {
  const auto rows = all_rows<message::ClientRows>(daemon, Op::list_clients, message::ListClients{},
                                                  [](auto& next, const auto& row) { next.after = row.id; });
  std::vector<Running> all;
  for (const message::ClientRow& row : rows) {
    const Running one{.pid = row.pid, .name = name_of(row)};
    if (row.pid != getpid() && std::ranges::find(all, one) == all.end()) all.push_back(one);
  }
  return all;
}

CiReport CiReport::of_daemon() {
  auto made = client::DaemonLink::of_program({});
  if (!made) throw std::runtime_error("the daemon does not tell what happened: " + made.error().text);
  client::DaemonLink& daemon = **made;
  auto running = running_programs(daemon);
  for (const auto limit = std::chrono::steady_clock::now() + kProgramsEnd;
       !running.empty() && std::chrono::steady_clock::now() < limit;) {
    std::this_thread::sleep_for(kAskAgain);
    running = running_programs(daemon);
  }
  std::map<uint32_t, CiProgram> programs;
  const auto program_of = [&programs](const auto& row) -> CiProgram& {
    return programs.try_emplace(row.client, CiProgram{.name = name_of(row), .left = {}, .troubles = {}}).first->second;
  };
  for (const auto& row : all_rows<message::HistoryRows>(daemon, Op::list_history, message::ListHistory{},
                                                        [](auto& next, const auto& one) { next.after = one.number; })) {
    if (!row.trouble || row.pid == getpid()) continue;
    const std::string often = row.times > 1 ? kTimes + std::to_string(row.times) + " times)" : "";
    program_of(row).troubles.push_back(row.text + often);
  }
  for (const auto& row : all_rows<message::LeftRows>(daemon, Op::list_left, message::ListLeft{},
                                                     [](auto& next, const auto& one) { next.after = one.client; })) {
    for (const auto& [kind, number] : row.objects) {
      program_of(row).left.push_back(std::to_string(number) + " " + kind + (number == 1 ? "" : "s"));
    }
  }
  std::vector<CiProgram> all;
  for (auto& [client, program] : programs) all.push_back(std::move(program));
  return CiReport(std::move(all), std::move(running));
}

CiProgram& CiReport::program_of(const std::string& name) {
  const auto found = std::ranges::find(programs_, name, &CiProgram::name);
  if (found != programs_.end()) return *found;
  return programs_.emplace_back(CiProgram{.name = name, .left = {}, .troubles = {}});
}

void CiReport::end_running() {
  std::vector<pid_t> pids;
  for (const Running& one : running_) pids.push_back(one.pid);
  const auto all = end_descendants(pids);
  for (const Running& one : running_) {
    const auto ended = std::ranges::find(all, one.pid, &Ended::pid);
    const int signal = ended == all.end() ? 0 : ended->signal;
    const char* const by = signal == SIGTERM ? "; SIGTERM ended it" : signal == SIGKILL ? "; SIGKILL ended it" : "";
    program_of(one.name).troubles.push_back("still had its devices 2 s after the command's end" + std::string(by));
  }
  running_.clear();
}

// A probe's line is "?fi_pingpong: TEXT" (lib/dropin/common/report.cc).
void CiReport::forgive_probes(std::istream& refusals) {
  for (std::string line; std::getline(refusals, line);) {
    const auto end = line.find(": ");
    if (!line.starts_with('?') || end == std::string::npos) continue;
    // The daemon cuts the name, as the kernel does.
    const std::string name = line.substr(1, std::min(end - 1, kLongestName)) + kProcess;
    const std::string trouble = kRefused + line.substr(end + 2);
    for (CiProgram& program : programs_) {
      if (!program.name.starts_with(name)) continue;
      std::erase_if(program.troubles,
                    [&](const std::string& one) { return one == trouble || one.starts_with(trouble + kTimes); });
    }
  }
  std::erase_if(programs_, [](const CiProgram& one) { return one.left.empty() && one.troubles.empty(); });
}

// A line is "ib_write_bw, process 4711: misuse unregistered: ..." or ends the program's: "...: 512 work requests
// validated, ..." (lib/dropin/ibverbs/validation_session.cc).
void CiReport::add_misuses(std::istream& file) {
  for (std::string line; std::getline(file, line);) {
    const auto number = line.find(kProcess), end = line.find(": ", number);
    if (number == std::string::npos || end == std::string::npos) continue;
    // The daemon cuts the name, as the kernel does.
    const std::string process = line.substr(number, end - number), text = line.substr(end + 2);
    auto program = std::ranges::find_if(programs_, [&](const CiProgram& one) { return one.name.ends_with(process); });
    if (program == programs_.end()) {
      program = programs_.insert(program, {.name = line.substr(0, end), .left = {}, .troubles = {}});
    }
    if (text.starts_with(kMisuse) || text.starts_with("note ")) {
      program->misuses.push_back(text);
      if (program->validated.empty()) program->validated = "it ended before it counted its misuses";
    } else {
      program->validated = text;
    }
  }
}

bool CiReport::any_misuses() const {
  return std::ranges::any_of(programs_, [](const CiProgram& one) { return misused(one); });
}

bool CiReport::any_left() const {
  return std::ranges::any_of(programs_, [](const CiProgram& one) { return !one.left.empty(); });
}

bool CiReport::any_troubles() const {
  return std::ranges::any_of(programs_, [](const CiProgram& one) { return !one.troubles.empty(); });
}

// "queue pair 0x11 to 10.0.0.2 ended with ..." (lib/service/qp_end_text.cc).
bool CiReport::tells_of_ends() const {
  const auto tells = [](const std::string& one) { return one.starts_with("queue pair 0x") && one.contains(" ended"); };
  return std::ranges::any_of(programs_, [&](const CiProgram& one) { return std::ranges::any_of(one.troubles, tells); });
}

int CiReport::exit_code(const CiOptions& options, int code) const {
  if (code != 0) return code;
  const bool fails = (options.fail_on_left && any_left()) || (options.fail_on_troubles && any_troubles()) ||
                     (options.fail_on_misuses && any_misuses());
  return fails ? 1 : 0;
}

void CiReport::print(const CiOptions& options, std::ostream& out) const {
  for (const CiProgram& program : programs_) {
    if (!program.left.empty()) out << "uroce-run: " << program.name << ", left " << joined(program.left, ", ") << '\n';
    for (const std::string& trouble : program.troubles) out << "uroce-run: " << program.name << ": " << trouble << '\n';
    for (const std::string& misuse : program.misuses) out << "uroce-run: " << program.name << ": " << misuse << '\n';
    if (!program.validated.empty()) out << "uroce-run: " << program.name << ": " << program.validated << '\n';
  }
  if (!any_left() && !any_troubles()) {
    out << "uroce-run: no program left objects or had trouble\n";
  } else if (exit_code(options, 0) != 0) {
    out << "uroce-run: this fails by --fail-on\n";
  }
}

void CiReport::write_junit(const CiOptions& options, const std::vector<std::string>& command, int code,
                           std::ostream& out) const {
  std::size_t cases = 1, failures = code != 0 ? 1 : 0;
  for (const CiProgram& program : programs_) {
    cases += 2;
    failures += options.fail_on_left && !program.left.empty() ? 1 : 0;
    failures += options.fail_on_troubles && !program.troubles.empty() ? 1 : 0;
    cases += program.validated.empty() ? 0 : 1;
    failures += options.fail_on_misuses && misused(program) ? 1 : 0;
  }
  out << "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"uroce-run\" tests=\"" << cases
      << "\" failures=\"" << failures << "\">\n";
  const std::string ended = code != 0 ? "it ended with exit code " + std::to_string(code) : "";
  add_case(out, joined(command, " "), ended, true);
  for (const CiProgram& program : programs_) {
    add_case(out, program.name + ": destroys what it makes", joined(program.left, ", "), options.fail_on_left);
    add_case(out, program.name + ": has no trouble", joined(program.troubles, "\n"), options.fail_on_troubles);
    if (program.validated.empty()) continue;
    const std::string misuses = joined(program.misuses, "\n");
    add_case(out, program.name + ": misuses no verb", misuses.empty() ? "" : misuses + '\n' + program.validated,
             options.fail_on_misuses && misused(program));
  }
  out << "</testsuite>\n";
}

}  // namespace uroce::run
