// `uroce trace`: the packets of one queue pair as text, live.
#pragma once

#include <string>

#include <uroce/error.h>

#include "uroce/command_line.h"
#include "uroce/frame_source.h"

namespace uroce::cli {

/// One line without a newline: seconds since `began_ns`, `>` for sent or `<` for received, and the packet in the text
/// form of wire/text.h.
std::string trace_line(const LiveFrame& frame, uint64_t began_ns);

/// Prints lines until ^C, SIGTERM, the given number of packets or seconds, or the end of the queue pair. Errors: those
/// of FrameSource: open(), queue_pair(), run().
Result<void> run_trace(const Options& options);

}  // namespace uroce::cli
