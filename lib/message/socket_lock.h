// The lock of a daemon's socket: a file beside it, SOCKET.lock. The kernel releases locks with the processes that hold
// them, however these end.
#pragma once

#include <string>

#include <sys/types.h>

#include <uroce/error.h>

#include "message/connection.h"

namespace uroce::message {

/// The bytes of the file that are locked, each for itself.
enum class LockByte : off_t {
  /// Of the daemon that has the socket, or is about to. Exclusive.
  owner,
  /// Of every uroce-run that needs the daemon, shared. A daemon that uroce-run started ends when it gets this byte.
  users,
  /// Of a daemon that a user starts while one that uroce-run started does not serve yet: that one makes room. Once it
  /// serves it has this byte itself. Exclusive.
  claim,
};

enum class LockKind { none, shared, exclusive };

/// The daemon that has the socket.
struct SocketHolder {
  pid_t process = 0;  ///< 0: not known
  bool of_uroce_run = false;
};

/// The file, open. Its locks go with this object, and with its copies in child processes.
class LockFile {
 public:
  LockFile() = default;
  /// Errors: those of open(2).
  static Result<LockFile> open(const std::string& socket, bool create);
  explicit operator bool() const { return static_cast<bool>(fd_); }
  int fd() const { return fd_.get(); }

  /// Does not wait. False when another open file has a lock that excludes this one.
  bool lock(LockByte byte, LockKind kind) const;
  /// The lock of another open file on this byte.
  LockKind held_by_others(LockByte byte) const;
  /// Whether it is still the file beside the socket: an owner that ends removes it.
  bool current() const;
  SocketHolder holder() const;
  void write_holder(const SocketHolder& holder) const;
  /// Only the owner calls it.
  void remove() const;

 private:
  friend class SocketOwner;
  LockFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}

  std::string path_;
  Fd fd_;
};

/// The right to a socket.
class SocketOwner {
 public:
  /// Makes the socket's folder when it is missing. `of_uroce_run`: for a daemon that uroce-run starts. Errors:
  /// EADDRINUSE (another has it, and the text says who), EINVAL (the path's length), and those of open(2).
  static Result<SocketOwner> take(const std::string& socket, bool of_uroce_run = false);
  /// The right that a parent process took: a descriptor of the lock's file. Error: EINVAL (it is none).
  static Result<SocketOwner> adopt(const std::string& socket, int fd);
  /// The right that a running daemon is about to pass: the same, but the file stays its until become_owner().
  static Result<SocketOwner> share(const std::string& socket, int fd);
  void become_owner(const SocketHolder& holder);
  SocketOwner(SocketOwner&& other) noexcept = default;
  SocketOwner& operator=(SocketOwner&& other) = delete;
  /// Removes the file, unless another process still owns it.
  ~SocketOwner();

  const std::string& socket() const { return socket_; }
  const LockFile& file() const { return file_; }
  /// Another process has the file by now, and removes it.
  void leave_file() { file_ = {}; }

 private:
  SocketOwner(std::string socket, LockFile file) : socket_(std::move(socket)), file_(std::move(file)) {}

  std::string socket_;
  LockFile file_;
  bool shared_ = false;
};

/// Why a socket cannot be had.
std::string in_use(const std::string& socket, const SocketHolder& holder);

}  // namespace uroce::message
