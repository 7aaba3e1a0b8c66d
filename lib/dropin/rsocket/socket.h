// What an rsocket is to the calls of <rdma/rsocket.h>, whether it streams or sends datagrams.
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

/// Buffers of an application's call, in which it goes on byte by byte.
class IoCursor {
 public:
  explicit IoCursor(std::span<const iovec> buffers) : buffers_(buffers) {
    for (const iovec& each : buffers) left_ += each.iov_len;
  }
  std::size_t left() const { return left_; }
  /// Copies at most `bytes` there, from there. Returns how many.
  std::size_t put(const std::byte* from, std::size_t bytes);
  std::size_t get(std::byte* to, std::size_t bytes);

 private:
  template <class Move>
  std::size_t step(std::size_t bytes, Move move);

  std::span<const iovec> buffers_;
  std::size_t at_ = 0;  ///< in the first of the buffers
  std::size_t left_ = 0;
};

/// Sizes, as options set them before the socket is used.
struct Sizes {
  uint32_t send_queue = settings().send_queue;
  uint32_t receive_queue = settings().receive_queue;
  uint32_t inline_bytes = settings().inline_bytes;
  uint32_t send_bytes = settings().send_bytes;
  uint32_t receive_bytes = settings().receive_bytes;
  uint32_t mappings = settings().mappings;
};

/// Calls return what those of <rdma/rsocket.h> do: -1 with errno where they fail.
class Socket {
 public:
  explicit Socket(int family) : family_(family) {}
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  virtual ~Socket() = default;

  /// The number that the application knows it by; a descriptor of this socket's.
  virtual int fd() const = 0;
  virtual int bind(const sockaddr* address, socklen_t length) = 0;
  virtual int listen(int backlog) = 0;
  virtual int accept(sockaddr* address, socklen_t* length) = 0;
  virtual int connect(const sockaddr* address, socklen_t length) = 0;
  virtual int shutdown(int how) = 0;
  /// Lets go of everything; the socket is no longer in the table.
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

  /// What poll(2) would say now, of `events`.
  virtual short ready(short events) = 0;
  /// As ready(); where that is 0, a change makes wait_fd() readable, or wakes `waiters`.
  virtual short arm(short events) = 0;
  /// -1 when there is nothing to wait for but `waiters`.
  virtual int wait_fd() = 0;
  /// wait_fd() was readable: takes what made it so.
  virtual void take_event() = 0;

  /// Of rfcntl(): O_NONBLOCK in particular.
  std::atomic<int> status_flags{0};
  Waiters waiters;

 protected:
  int family() const { return family_; }
  bool non_blocking(int flags) const { return (status_flags & O_NONBLOCK) != 0 || (flags & MSG_DONTWAIT) != 0; }

 private:
  int family_;
};

/// Sockets by number. Any thread; a socket that was found stays as long as it is held.
namespace table {
std::shared_ptr<Socket> find(int fd);
void add(std::shared_ptr<Socket> socket);
/// What was there.
std::shared_ptr<Socket> remove(int fd);
}  // namespace table

/// Copies a socket address to where an application wants it, cut to its room.
void give_address(const sockaddr_storage& from, sockaddr* to, socklen_t* length);

/// Options that are a number.
int give_number(int number, void* value, socklen_t* length);
int take_number(const void* value, socklen_t length, int& number);

}  // namespace uroce::dropin::rsocket
