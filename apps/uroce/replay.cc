#include "uroce/replay.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

#include "record/file.h"
#include "record/replayer.h"
#include "record/script_writer.h"
#include "record/state_text.h"
#include "uroce/record_dump.h"
#include "uroce/table.h"
#include "wire/packet.h"
#include "wire/text.h"

namespace uroce::cli {
namespace {

/// Prints the packets of a queue pair, and its state where the replay ends.
class Printer final : public record::Watch {
 public:
  explicit Printer(const Options& options) : options_(options) {}

  bool on_frame(const record::Passing& frame, transport::Engine& engine) override {
    const auto packet = wire::parse(frame.frame, wire::Icrc::skip);
    const bool own = options_.qp && packet && record::concerns(engine, *options_.qp, *packet, frame.in);
    const bool last =
        frame.number == options_.stop_at || (own && options_.stop_psn && packet->bth.psn == Psn(*options_.stop_psn));
    if (first_ < Nanos(0)) first_ = frame.now;
    const bool shown = last || !options_.qp || own;
    if (shown && !options_.json) {
      const std::string text = packet ? wire::to_text(*packet) : fmt::format("({} bytes)", frame.frame.size());
      fmt::print("{:8} {:12.9f} {} {}\n", frame.number, static_cast<double>((frame.now - first_).count()) / 1e9,
                 frame.in ? '<' : '>', printable(text));
    }
    if (last) print_state("before", engine);
    return !last;
  }
  void on_stop(transport::Engine& engine) override { print_state("after", engine); }

 private:
  void print_state(const char* when, transport::Engine& engine) const {
    if (options_.qp && !options_.json) fmt::print("{}: {}\n", when, record::state_text(engine, *options_.qp));
  }

  const Options& options_;
  Nanos first_{-1};
};

std::string json_of(const record::Recorded& file, const record::Report& report) {
  return fmt::format(
      R"({{"device": {}, "engine": {}, "pid": {}, "full": {}, "cut": {}, "stopped": {}, "records": {}, "keyframes": {}, "calls": {}, )"
      R"("frames_in": {}, "frames_out": {}, "completions": {}, "events": {}, "nanoseconds": {}, "divergence": {}}})",
      json_text(file.device), file.engine, file.pid, file.full, report.cut, report.stopped, report.records,
      report.keyframes, report.calls, report.frames_in, report.frames_out, report.completions, report.events,
      (report.last - report.first).count(), report.divergence ? json_text(*report.divergence) : "null");
}

/// Writes a packet script of the queue pair.
Result<void> run_script(const Options& options, const record::Recorded& file) {
  const std::string name = fmt::format("QP {:#x} of engine {} of {}", *options.qp, file.engine, printable(file.device));
  const auto script = record::write_script(file.records, *options.qp, name, options.stop_at);
  if (!script) return fail(script.error().code, fmt::format("{}: {}", options.file, printable(script.error().text)));
  const bool to_output = options.script == "-";
  std::FILE* const out = to_output ? stdout : std::fopen(options.script.c_str(), "we");
  if (out == nullptr) return fail(errno, fmt::format("cannot write {}: {}", options.script, std::strerror(errno)));
  fmt::print(out, "{}", script->text);
  if ((to_output ? std::fflush(out) : std::fclose(out)) != 0) {
    return fail(errno, fmt::format("cannot write {}: {}", options.script, std::strerror(errno)));
  }
  if (to_output) return {};
  fmt::print("{} packets; run it with: packet_script {}\n", script->packets, options.script);
  for (const std::string& what : script->left_out) fmt::print("left out: {}\n", what);
  return {};
}

}  // namespace

Result<void> run_replay(const Options& options) {
  const auto file = record::read_file(options.file);
  if (!file) return std::unexpected(file.error());
  if (!options.script.empty()) return run_script(options, *file);
  Printer printer(options);
  const bool watches = options.qp || options.stop_at != 0;
  const record::Report report = record::Replayer(file->records, watches ? &printer : nullptr).run();
  if (options.json) {
    fmt::print("{}\n", json_of(*file, report));
  } else {
    fmt::print("engine {} of {}, process {}: {:.6f} s{}{}\n", file->engine, printable(file->device), file->pid,
               static_cast<double>((report.last - report.first).count()) / 1e9,
               file->full ? "; the recording became full" : "", report.cut ? "; it ends within a call" : "");
    fmt::print("{} calls, {} frames in, {} frames out, {} completions, {} events\n", report.calls, report.frames_in,
               report.frames_out, report.completions, report.events);
  }
  if (report.malformed) {
    return fail(EINVAL, fmt::format("{} has been changed: {}", options.file, printable(*report.divergence)));
  }
  if (report.divergence) return fail(EIO, fmt::format("the replay differs: {}", *report.divergence));
  const bool stops = options.stop_at != 0 || options.stop_psn;
  if (stops && !report.stopped) {
    return fail(ENOENT, fmt::format("the replay never came to the packet of --stop-at: it has {} packets; see those of "
                                    "the queue pair with --qp alone",
                                    report.frames_in + report.frames_out));
  }
  if (!options.json && !report.stopped) fmt::print("bit-exact\n");
  return {};
}

}  // namespace uroce::cli
