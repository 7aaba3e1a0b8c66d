#include "uroce/capture.h"

#include <fmt/format.h>

#include <uroce/version.h>
#include <cerrno>

#include "uroce/frame_source.h"
#include "uroce/pcapng.h"

namespace uroce::cli {

Result<void> run_capture(const Options& options) {
  auto source = FrameSource::open(
      {.source = options.source, .qp = options.qp, .count = options.count, .seconds = options.seconds});
  if (!source) return std::unexpected(source.error());
  if (auto there = source->queue_pair(); !there) {
    fmt::print(stderr, "uroce: {}; waiting for one that comes\n", there.error().text);
  }
  auto file = Pcapng::create(options.file, source->device(), fmt::format("uroce {}", kVersion));
  if (!file) return std::unexpected(file.error());
  fmt::print(stderr, "capturing on {}; ^C ends it\n", source->device());
  const FrameTotals totals = source->run(
      [&](const LiveFrame& frame) {
        const std::string fault = frame.fault_rule == 0 ? "" : fmt::format("fault rule {}", frame.fault_rule);
        file->frame(frame.time_ns, frame.outbound, frame.bytes, fault);
        return file->state().has_value();
      },
      [&] {
        file->flush();
        return file->state().has_value();
      });
  if (auto ended = file->end(totals.seen + totals.dropped, totals.dropped); !ended) {
    if (ended.error().code == EPIPE) return {};  // the reader of the pipe has seen enough
    return ended;
  }
  fmt::print(stderr, "{} frames written, {} dropped because they came faster than they could be written\n",
             totals.taken, totals.dropped);
  return totals.end;
}

}  // namespace uroce::cli
