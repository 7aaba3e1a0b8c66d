// `uroce explain`: what happened to a program or a queue pair, in sentences.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <uroce/error.h>

#include "uroce/command_line.h"

namespace uroce::cli {

/// The events that are asked for: of a queue pair (0x11), a process (4711), or all programs of a name. All of them for
/// an empty text.
message::ListHistory history_of(std::string_view subject);

/// For people: for each program its events, and in the last line the last trouble.
std::string explanation(const std::vector<message::HistoryRow>& rows);
/// The same as JSON: an array of programs in one line, without a newline.
std::string explanation_json(const std::vector<message::HistoryRow>& rows);

/// Errors: the daemon's; ENOENT (nothing is known of the subject).
Result<void> run_explain(const Options& options);

}  // namespace uroce::cli
