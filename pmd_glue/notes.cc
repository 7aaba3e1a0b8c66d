#include "pmd_glue/notes.h"

#include <fmt/format.h>

#include <cstdio>
#include <mutex>

namespace uroce::glue {

namespace {

// One writer per process: EAL allows one stack, and some notes come before it exists.
std::mutex mutex;
NoteWriter current;

}  // namespace

void note(std::string_view text, NoteLevel level) {
  const std::lock_guard lock(mutex);
  if (current) return current(level, text);
  fmt::print(stderr, "uroce: {}\n", text);
}

void set_note_writer(NoteWriter writer) {
  const std::lock_guard lock(mutex);
  current = std::move(writer);
}

}  // namespace uroce::glue
