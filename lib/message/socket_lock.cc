#include "message/socket_lock.h"

#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <thread>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

namespace uroce::message {
namespace {

constexpr std::string_view kOfUser = "uroced";
constexpr std::string_view kOfUroceRun = "uroce-run";
/// Bytes of the text: a process and a program.
constexpr std::size_t kLine = 24;
/// Each further try means that an owner removed the file meanwhile.
constexpr int kTries = 1000;

std::string path_of(const std::string& socket) { return socket + ".lock"; }

struct flock request(LockByte byte, LockKind kind) {
  struct flock wanted{};
  wanted.l_type = kind == LockKind::exclusive ? F_WRLCK : kind == LockKind::shared ? F_RDLCK : F_UNLCK;
  wanted.l_whence = SEEK_SET;
  wanted.l_start = static_cast<off_t>(byte);
  wanted.l_len = 1;
  return wanted;
}

bool lives(pid_t process) { return process > 0 && (kill(process, 0) == 0 || errno == EPERM); }

/// The owner by name. It writes its name a moment after it has the lock; until then the file may name one that has
/// died.
SocketHolder settled_holder(const LockFile& file) {
  constexpr int kLooks = 250;
  constexpr std::chrono::milliseconds kPause{2};
  SocketHolder holder = file.holder();
  for (int look = 1; look < kLooks && !lives(holder.process); ++look) {
    std::this_thread::sleep_for(kPause);
    holder = file.holder();
  }
  return holder;
}

Result<void> check_length(const std::string& socket) {
  constexpr std::size_t kMost = sizeof sockaddr_un{}.sun_path - 1;
  if (!socket.empty() && socket.size() <= kMost) return {};
  return fail(EINVAL, "the socket's path '" + socket + "' has " + std::to_string(socket.size()) +
                          " bytes; it must have 1 to " + std::to_string(kMost));
}

}  // namespace

Result<LockFile> LockFile::open(const std::string& socket, bool create) {
  std::string path = path_of(socket);
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | (create ? O_CREAT : 0), 0600);
  if (fd >= 0) return LockFile(std::move(path), fd);
  const int code = errno;
  return fail(code,
              path + ": open: " + std::strerror(code) +
                  "; set another socket, run as a user with the permission, or remove the file when no uroced runs");
}

bool LockFile::lock(LockByte byte, LockKind kind) const {
  struct flock wanted = request(byte, kind);
  return fcntl(fd_.get(), F_OFD_SETLK, &wanted) == 0;
}

LockKind LockFile::held_by_others(LockByte byte) const {
  struct flock found = request(byte, LockKind::exclusive);
  if (fcntl(fd_.get(), F_OFD_GETLK, &found) != 0 || found.l_type == F_UNLCK) return LockKind::none;
  return found.l_type == F_RDLCK ? LockKind::shared : LockKind::exclusive;
}

bool LockFile::current() const {
  struct stat mine{};
  struct stat there{};
  return fstat(fd_.get(), &mine) == 0 && lstat(path_.c_str(), &there) == 0 && mine.st_dev == there.st_dev &&
         mine.st_ino == there.st_ino;
}

SocketHolder LockFile::holder() const {
  std::array<char, kLine> text{};
  const ssize_t length = pread(fd_.get(), text.data(), text.size(), 0);
  SocketHolder holder;
  const char* const end = text.data() + (length > 0 ? length : 0);
  const char* const word = std::from_chars(text.data(), end, holder.process).ptr;
  holder.of_uroce_run = std::string_view(word, end).find(kOfUroceRun) != std::string_view::npos;
  return holder;
}

void LockFile::write_holder(const SocketHolder& holder) const {
  // Always as long, so that one write replaces it.
  std::string line = std::to_string(holder.process) + " ";
  line.append(holder.of_uroce_run ? kOfUroceRun : kOfUser).resize(kLine - 1, ' ');
  line += '\n';
  // Without the text the owner is an unknown one.
  [[maybe_unused]] const ssize_t written = pwrite(fd_.get(), line.data(), line.size(), 0);
}

void LockFile::remove() const {
  if (current()) unlink(path_.c_str());
}

Result<SocketOwner> SocketOwner::take(const std::string& socket, bool of_uroce_run) {
  if (auto fits = check_length(socket); !fits) return std::unexpected(fits.error());
  std::error_code ignored;
  const auto folder = std::filesystem::path(socket).parent_path();
  if (!folder.empty()) std::filesystem::create_directories(folder, ignored);
  for (int tries = 0; tries < kTries; ++tries) {
    auto file = LockFile::open(socket, true);
    if (!file) return std::unexpected(file.error());
    if (!file->lock(LockByte::owner, LockKind::exclusive)) {
      return fail(EADDRINUSE, in_use(socket, settled_holder(*file)));
    }
    if (!file->current()) continue;
    file->write_holder({.process = getpid(), .of_uroce_run = of_uroce_run});
    return SocketOwner(socket, std::move(*file));
  }
  return fail(EADDRINUSE, socket + ": other processes take and leave this socket all the time; set another socket");
}

Result<SocketOwner> SocketOwner::adopt(const std::string& socket, int fd) {
  if (auto fits = check_length(socket); !fits) return std::unexpected(fits.error());
  LockFile file(path_of(socket), fd);
  if (fcntl(fd, F_SETFD, FD_CLOEXEC) == 0 && file.current() && file.lock(LockByte::owner, LockKind::exclusive)) {
    return SocketOwner(socket, std::move(file));
  }
  return fail(EINVAL, socket + ": descriptor " + std::to_string(fd) + " is not the lock of this socket");
}

Result<SocketOwner> SocketOwner::share(const std::string& socket, int fd) {
  auto owner = adopt(socket, fd);
  if (owner) owner->shared_ = true;
  return owner;
}

void SocketOwner::become_owner(const SocketHolder& holder) {
  shared_ = false;
  file_.write_holder(holder);
}

SocketOwner::~SocketOwner() {
  if (file_ && !shared_) file_.remove();
}

std::string in_use(const std::string& socket, const SocketHolder& holder) {
  const std::string process = holder.process > 0 ? " (process " + std::to_string(holder.process) + ")" : "";
  std::string text = socket + ": another uroced" + process + " has this socket; ";
  if (!holder.of_uroce_run) return text + "stop it or set another socket";
  return text +
         "uroce-run started it, and it ends when no program uses it any more; use it as it is, end its programs, "
         "or set another socket";
}

}  // namespace uroce::message
