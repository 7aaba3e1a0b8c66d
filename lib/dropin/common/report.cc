#include "dropin/common/report.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>

#include "base/no_cancel.h"

namespace uroce::dropin {

namespace {

/// A program that calls again for ever must not fill the disk.
constexpr off_t kMostExplained = 1 << 20;

/// Adds one line, "PROGRAM: text". Lines of several processes do not mix, because each is one write in append mode
/// (open(2), O_APPEND).
void explain(const char* file, const char* text) {
  const int fd = open(file, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return;
  struct stat status{};
  if (fstat(fd, &status) == 0 && status.st_size < kMostExplained) {
    std::array<char, 1024> line;
    const int length = std::snprintf(line.data(), line.size(), "%s: %s", program_invocation_short_name, text);
    const auto end = static_cast<std::size_t>(std::clamp(length, 0, static_cast<int>(line.size()) - 1));
    std::replace(line.begin(), line.begin() + static_cast<std::ptrdiff_t>(end), '\n', ' ');
    line[end] = '\n';
    [[maybe_unused]] const auto written = write(fd, line.data(), end + 1);
  }
  close(fd);
}

void tell(const char* text) {
  const char* file = std::getenv("UROCE_EXPLAIN");
  const bool aloud = std::getenv("UROCE_VERBOSE") != nullptr;
  if (file == nullptr && !aloud) return;
  const NoCancel guard;
  if (aloud) std::fprintf(stderr, "uroce: %s\n", text);
  if (file != nullptr) explain(file, text);
}

}  // namespace

int report(const Error& error) {
  tell(error.text.c_str());
  return errno = error.code;
}

int refuse(int code, const char* text) {
  tell(text);
  return errno = code;
}

}  // namespace uroce::dropin
