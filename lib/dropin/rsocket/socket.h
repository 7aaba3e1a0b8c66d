// The interface of an rsocket, stream or datagram, to the calls of <rdma/rsocket.h>.
#pragma once

#include <fcntl.h>
#include <rdma/rsocket.h>
#include <sys/uio.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "dropin/rsocket/settings.h"
#include "dropin/rsocket/waiters.h"

namespace uroce::dropin::rsocket {

/// A position in the buffers (iovec) of an application's call.
class IoCursor {
 public:
  explicit IoCursor(std::span<const iovec> buffers) : buffers_(buffers) {
    for (const iovec& each : buffers) left_ += each.iov_len;
  }
  std::size_t left() const { return left_; }
  /// Copy at most `bytes` to, or from, the buffers. Return how many were copied.
  std::size_t put(const std::byte* from, std::size_t bytes);
  std::size_t get(std::byte* to, std::size_t bytes);

 private:
  template <class Move>
  std::size_t step(std::size_t bytes, Move move);

  std::span<const iovec> buffers_;
  std::size_t at_ = 0;  ///< offset in the first remaining buffer
  std::size_t left_ = 0;
};

/// Sizes, which options can set before the socket connects.
struct Sizes {
  uint32_t send_queue = settings().send_queue;
  uint32_t receive_queue = settings().receive_queue;
  uint32_t inline_bytes = settings().inline_bytes;
  uint32_t send_bytes = settings().send_bytes;
  uint32_t receive_bytes = settings().receive_bytes;
  uint32_t mappings = settings().mappings;
};

/// Calls return the values of <rdma/rsocket.h>: -1 with errno on failure.
class Socket {
 public:
  explicit Socket(int family) : family_(family) {}
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  virtual ~Socket() = default;

  /// The socket's number for the application; a descriptor that this socket owns.
  virtual int fd() const = 0;
  virtual int bind(const sockaddr* address, socklen_t length) = 0;
  virtual int listen(int backlog) = 0;
  virtual int accept(sockaddr* address, socklen_t* length) = 0;
  virtual int connect(const sockaddr* address, socklen_t length) = 0;
  virtual int shutdown(int how) = 0;
  /// Releases everything. The socket is no longer in the table.
  virtual void close() = 0;
  /// `from` and `length` may be null.
  virtual ssize_t receive(IoCursor to, int flags, sockaddr* from, socklen_t* length) = 0;
  virtual ssize_t send(IoCursor from, int flags, const sockaddr* to, socklen_t length) = 0;
  virtual int peer_name(sockaddr* address, socklen_t* length) = 0;
  virtual int own_name(sockaddr* address, socklen_t* length) = 0;
  virtual int set_option(int level, int name, const void* value, socklen_t length) = 0;
  virtual int get_option(int level, int name, void* value, socklen_t* length) = 0;

  virtual off_t map(void* buffer, std::size_t length, int protection, off_t offset) = 0;
  virtual int unmap(void* buffer, std::size_t length) = 0;
  virtual std::size_t write_at(IoCursor from, off_t offset, int flags) = 0;

  /// The subset of `events` that are ready now, as poll(2) returns it.
  virtual short ready(short events) = 0;
  /// Returns the same as ready(). When that is 0, the next change makes wait_fd() readable or wakes `waiters`.
  virtual short arm(short events) = 0;
  /// -1 when only `waiters` reports changes.
  virtual int wait_fd() = 0;
  /// Takes the event that made wait_fd() readable.
  virtual void take_event() = 0;

  /// The flags of rfcntl(), among them O_NONBLOCK.
  std::atomic<int> status_flags{0};
  bool non_blocking(int flags) const { return (status_flags & O_NONBLOCK) != 0 || (flags & MSG_DONTWAIT) != 0; }
  Waiters waiters;

 protected:
  int family() const { return family_; }

 private:
  int family_;
};

/// Sockets by number. Any thread.
namespace table {
std::shared_ptr<Socket> find(int fd);
void add(std::shared_ptr<Socket> socket);
/// Removes the socket and returns it; null when there is none.
std::shared_ptr<Socket> remove(int fd);
}  // namespace table

/// Copies a socket address to the application's buffer, truncated to its size.
void give_address(const sockaddr_storage& from, sockaddr* to, socklen_t* length);

/// Options with an integer value.
int give_number(int number, void* value, socklen_t* length);
int take_number(const void* value, socklen_t length, int& number);

}  // namespace uroce::dropin::rsocket
