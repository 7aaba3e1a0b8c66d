// Messages of the stack to people while it starts and runs: one sentence each, rarely.
#pragma once

#include <functional>
#include <string_view>

namespace uroce::glue {

enum class NoteLevel { info, warning };

using NoteWriter = std::function<void(NoteLevel, std::string_view)>;

/// Writes a line to stderr. On a full disk it is lost: fmt::print() would throw, and so end a program that only tells
/// its last error.
void write_line_to_stderr(std::string_view line);
/// Any thread. Writes "uroce: ..." to stderr, or calls the writer that was set.
void note(std::string_view text, NoteLevel level = NoteLevel::warning);
/// Sets the writer of the process; an empty one restores stderr. One thread at a time calls `writer`.
void set_note_writer(NoteWriter writer);

}  // namespace uroce::glue
