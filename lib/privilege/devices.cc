#include "privilege/devices.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/landlock.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>

#include "privilege/thread_call.h"

namespace uroce::privilege {

namespace {

/// The rights of Linux 5.13, and those of them that a file can have.
constexpr uint64_t kAll = (LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1;
constexpr uint64_t kOfFile = LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE;

constexpr const char* kDevices[] = {"/dev/hugepages", "/dev/infiniband", "/dev/net",    "/dev/null",
                                    "/dev/random",    "/dev/shm",        "/dev/stderr", "/dev/stdout",
                                    "/dev/urandom",   "/dev/vfio",       "/dev/zero",   "/dev/userfaultfd"};

std::atomic<int> rules{-1};
std::atomic<bool> unbound{false};  // a thread could not be restricted

bool restrict_thread() { return syscall(SYS_landlock_restrict_self, rules.load(), 0) == 0; }

/// A path that does not exist needs no rule.
void allow(int ruleset, const char* path) {
  const int fd = open(path, O_PATH | O_CLOEXEC);
  if (fd < 0) return;
  struct stat status{};
  const bool folder = fstat(fd, &status) == 0 && S_ISDIR(status.st_mode);
  const landlock_path_beneath_attr rule{.allowed_access = folder ? kAll : kOfFile, .parent_fd = fd};
  syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
  close(fd);
}

/// Landlock knows no exceptions, so the other folders are named one by one.
void allow_all_but_devices(int ruleset) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/", error)) {
    if (entry.path() != "/dev") allow(ruleset, entry.path().c_str());
  }
  for (const char* path : kDevices) allow(ruleset, path);
}

}  // namespace

Result<void> deny_devices() {
  landlock_ruleset_attr handled{};  // later headers have more members
  handled.handled_access_fs = kAll;
  const auto ruleset =
      static_cast<int>(syscall(SYS_landlock_create_ruleset, &handled, sizeof handled.handled_access_fs, 0));
  const auto failed = [](int code) {
    return fail(code,
                fmt::format("the kernel cannot keep devices from the program (Landlock): {}", std::strerror(code)));
  };
  if (ruleset < 0) return failed(errno);
  allow_all_but_devices(ruleset);
  rules = ruleset;
  Result<void> done{};
  if (restrict_thread()) {
    done = on_other_threads([] {
      if (!restrict_thread()) unbound = true;
    });
    if (done && unbound) done = failed(EPERM);
  } else {
    done = failed(errno);
  }
  close(ruleset);
  return done;
}

}  // namespace uroce::privilege
