#include "dropin/common/report.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "base/no_cancel.h"
#include "dropin/common/caller.h"

namespace uroce::dropin {

namespace {

/// A program that calls again for ever must not fill the disk.
constexpr off_t kMostExplained = 1 << 20;

/// How much is known about a refused call.
enum class Kind : uint8_t {
  refused,    ///< the program needs what it asked for
  may_probe,  ///< the calling library decides
  probe,
};

/// Adds one line, "PROGRAM: text", or "?PROGRAM: text" for a probe. Lines of several processes do not mix, because each
/// is one write in append mode (open(2), O_APPEND).
void explain(const char* file, const char* text, bool probe) {
  const int fd = open(file, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return;
  struct stat status{};
  if (fstat(fd, &status) == 0 && status.st_size < kMostExplained) {
    std::array<char, 1024> line;
    const int length =
        std::snprintf(line.data(), line.size(), "%s%s: %s", probe ? "?" : "", program_invocation_short_name, text);
    const auto end = static_cast<std::size_t>(std::clamp(length, 0, static_cast<int>(line.size()) - 1));
    std::replace(line.begin(), line.begin() + static_cast<std::ptrdiff_t>(end), '\n', ' ');
    line[end] = '\n';
    [[maybe_unused]] const auto written = write(fd, line.data(), end + 1);
  }
  close(fd);
}

void tell(int code, const char* text, Kind kind) {
  const char* file = std::getenv("UROCE_EXPLAIN");
  const bool aloud = std::getenv("UROCE_VERBOSE") != nullptr;
  if (file == nullptr && !aloud) return;
  const NoCancel guard;
  if (kind == Kind::may_probe && is_expected_by(calling_object().value_or(""), code)) kind = Kind::probe;
  const bool probe = kind == Kind::probe;
  if (aloud) std::fprintf(stderr, "uroce: %s%s\n", probe ? "a library tries out what there is: " : "", text);
  if (file != nullptr) explain(file, text, probe);
}

}  // namespace

int report(const Error& error) { return refuse(error.code, error.text.c_str()); }

int refuse(int code, const char* text) {
  tell(code, text, Kind::refused);
  return errno = code;
}

std::nullptr_t refuse_null(int code, const char* text) {
  tell(code, text, Kind::may_probe);
  return failed_null(code);
}

std::nullptr_t refuse_probe(int code, const char* text) {
  tell(code, text, Kind::probe);
  return failed_null(code);
}

}  // namespace uroce::dropin
