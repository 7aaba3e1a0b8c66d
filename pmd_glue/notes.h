// What the stack tells people while it starts and runs: one sentence each, rarely.
#pragma once

#include <functional>
#include <string_view>

namespace uroce::glue {

using NoteWriter = std::function<void(std::string_view)>;

/// Any thread. Goes to stderr as "uroce: ..." unless somebody writes it elsewhere.
void note(std::string_view text);
/// From now on, for the process; empty for stderr again. `writer` is called by one thread at a time.
void set_note_writer(NoteWriter writer);

}  // namespace uroce::glue
