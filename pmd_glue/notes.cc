#include "pmd_glue/notes.h"

#include <fmt/format.h>

#include <cstdio>
#include <mutex>
#include <string>

namespace uroce::glue {

namespace {

// One writer per process: EAL allows one stack, and some notes come before it exists.
std::mutex mutex;
NoteWriter current;

}  // namespace

void write_line_to_stderr(std::string_view line) {
  std::string text(line);
  text += '\n';
  std::fputs(text.c_str(), stderr);
}

void note(std::string_view text, NoteLevel level) {
  const std::lock_guard lock(mutex);
  if (current) return current(level, text);
  write_line_to_stderr(fmt::format("uroce: {}", text));
}

void set_note_writer(NoteWriter writer) {
  const std::lock_guard lock(mutex);
  current = std::move(writer);
}

}  // namespace uroce::glue
