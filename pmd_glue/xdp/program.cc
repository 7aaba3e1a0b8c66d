#include "pmd_glue/xdp/program.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <span>
#include <string_view>
#include <utility>

#include "pmd_glue/xdp/objects.h"

namespace uroce::glue::xdp {

namespace {

constexpr const char* kFileName = "uroce-xdp";

std::unexpected<Error> failed(std::string_view call) {
  const int code = errno;
  return fail(code, fmt::format("{}: {}", call, std::strerror(code)));
}

}  // namespace

bool have_programs() { return !kRoceObject.empty() && !kWholeObject.empty(); }

Result<ProgramFile> ProgramFile::make() {
  const int fd = memfd_create(kFileName, MFD_CLOEXEC);
  if (fd < 0) return failed("memfd_create()");
  return ProgramFile(fd);
}

ProgramFile::~ProgramFile() {
  if (fd_ >= 0) close(fd_);
}

ProgramFile::ProgramFile(ProgramFile&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

std::string ProgramFile::path() const { return fmt::format("/proc/self/fd/{}", fd_); }

bool is_program_file(const std::string& path) {
  char target[64] = "";
  return readlink(path.c_str(), target, sizeof target - 1) > 0 &&
         std::string_view(target).starts_with(fmt::format("/memfd:{}", kFileName));
}

Result<void> write_program(const std::string& path, Steering steering) {
  if (!have_programs()) return fail(ENOTSUP, "this build has no XDP programs");
  const int fd = open(path.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC);
  if (fd < 0) return failed(fmt::format("open() of {}", path));
  const auto program = steering == Steering::roce ? kRoceObject : kWholeObject;
  const ssize_t written = write(fd, program.data(), program.size());
  const int error = written < 0 ? errno : ENOSPC;
  close(fd);
  if (written == static_cast<ssize_t>(program.size())) return {};
  return fail(error, fmt::format("write() to {}: {}", path, std::strerror(error)));
}

}  // namespace uroce::glue::xdp
