#include "uroce/trace.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <optional>

#include "uroce/table.h"
#include "wire/packet.h"
#include "wire/text.h"

namespace uroce::cli {

std::string trace_line(const LiveFrame& frame, uint64_t began_ns) {
  // Engines' frames may come a little out of order.
  const auto ns = static_cast<int64_t>(frame.time_ns - began_ns);
  const auto packet = wire::parse(frame.bytes, wire::Icrc::skip);
  const std::string text = packet ? wire::to_text(*packet) : fmt::format("({} bytes)", frame.bytes.size());
  const std::string fault = frame.fault_rule == 0 ? "" : fmt::format(" (fault rule {})", frame.fault_rule);
  return fmt::format("{:12.6f} {} {}{}", static_cast<double>(ns) / 1e9, frame.outbound ? '>' : '<', printable(text),
                     fault);
}

Result<void> run_trace(const Options& options) {
  auto source = FrameSource::open({.source = options.source,
                                   .qp = options.qp,
                                   .count = options.count,
                                   .seconds = options.seconds,
                                   .until_qp_gone = true});
  if (!source) return std::unexpected(source.error());
  if (auto there = source->queue_pair(); !there) return there;
  fmt::print(stderr, "tracing queue pair {:#x} on {}; ^C ends it\n", *options.qp, source->device());
  std::optional<uint64_t> began_ns;
  const FrameTotals totals = source->run(
      [&](const LiveFrame& frame) {
        if (!began_ns) began_ns = frame.time_ns;
        const std::string line = trace_line(frame, *began_ns) + '\n';
        return std::fwrite(line.data(), 1, line.size(), stdout) == line.size();
      },
      [] { return std::fflush(stdout) == 0; });
  std::fflush(stdout);
  if (totals.qp_gone) fmt::print(stderr, "queue pair {:#x} has gone\n", *options.qp);
  fmt::print(stderr, "{} packets, and {} frames of the device that came faster than they could be looked at\n",
             totals.taken, totals.dropped);
  return totals.end;
}

}  // namespace uroce::cli
