// Parts of raw_calls.cc: expectations, memory that was registered and its twin that never was, and children made past
// libc.
#pragma once

#include <signal.h>
#include <sys/wait.h>

#include <fstream>
#include <string>

#include "ordinary.h"

namespace ordinary {

constexpr std::size_t kPages = 8;
inline const std::size_t kBytes = kPages * kPage;

inline ibv_pd* pd;
/// The first expectation of a check that was not met.
inline std::string wrong;

__attribute__((format(printf, 2, 3))) inline void expect(bool is_right, const char* format, ...) {
  if (is_right || !wrong.empty()) return;
  std::va_list values;
  va_start(values, format);
  std::array<char, 512> line{};
  std::vsnprintf(line.data(), line.size(), format, values);
  va_end(values);
  wrong = line.data();
}

inline Byte value(std::size_t i) { return static_cast<Byte>((i * 2654435761U >> 13) | 1U); }
inline void fill(Byte* memory, std::size_t length = kBytes) {
  for (std::size_t i = 0; i < length; ++i) memory[i] = value(i);
}
/// The bytes [from, to) of what fill() made, which may be elsewhere now.
inline void expect_content(const Byte* memory, std::size_t from, std::size_t to, const char* what) {
  for (std::size_t i = from; i < to; ++i)
    expect(memory[i] == value(i), "%s: expected %d at byte %zu, found %d", what, value(i), i, memory[i]);
}
inline void expect_zeros(const Byte* memory, std::size_t from, std::size_t to, const char* what) {
  for (std::size_t i = from; i < to; ++i)
    expect(memory[i] == 0, "%s: expected a zero at byte %zu, found %d", what, i, memory[i]);
}

/// Filled pages that merge with no neighbour.
inline Byte* lone_pages() {
  Byte* memory = map_pages(kPages + 2, PROT_NONE) + kPage;
  if (mprotect(memory, kBytes, PROT_READ | PROT_WRITE) != 0) die("mprotect: %s", std::strerror(errno));
  fill(memory);
  return memory;
}
inline Byte* were_registered() {
  Byte* memory = lone_pages();
  register_and_deregister(pd, memory, kBytes);
  expect_content(memory, 0, kBytes, "after the end of the region");
  return memory;
}

/// 0, or the error of the call before.
inline int error_of(long result) { return result < 0 ? errno : 0; }
inline void expect_same(const char* call, int error, int twin) {
  expect(error == twin, "%s: expected '%s', as memory gives that was never registered, found '%s'", call,
         std::strerror(twin), std::strerror(error));
}

/// The line VmFlags of smaps, without "sd", which tells of stores (proc_pid_smaps(5)).
inline std::string flags_of(const Byte* memory) {
  std::ifstream lines("/proc/self/smaps");
  bool within = false;
  for (std::string line; std::getline(lines, line);) {
    uintptr_t first = 0, end = 0;
    const auto at = reinterpret_cast<uintptr_t>(memory);
    if (std::sscanf(line.c_str(), "%lx-%lx", &first, &end) == 2) within = first <= at && at < end;
    if (!within || !line.starts_with("VmFlags:")) continue;
    if (const auto dirty = line.find(" sd"); dirty != std::string::npos) line.erase(dirty, 3);
    return line;
  }
  return "none";
}
/// Runs `look` in a child made past libc, after the parent has run `then`. The child's answer.
template <class Then, class Look>
int in_raw_child(const Then& then, const Look& look) {
  std::array<int, 2> go{};
  if (pipe(go.data()) != 0) die("pipe: %s", std::strerror(errno));
  const auto child = static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
  if (child < 0) die("clone: %s", std::strerror(errno));
  if (child == 0) {
    char byte = 0;
    syscall(SYS_exit_group, read(go[0], &byte, 1) == 1 ? look() : 255);
  }
  then();
  int status = 0;
  if (write(go[1], "x", 1) != 1 || waitpid(child, &status, 0) != child) die("expected a child to end");
  close(go[0]);
  close(go[1]);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
}

}  // namespace ordinary
