// UDP sockets for RoCE on one interface of the kernel (udp(7), ip(7), ipv6(7)). They need no right.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>

#include <uroce/error.h>
#include <uroce/types.h>

#include "message/connection.h"

namespace uroce::glue::udp {

class Socket {
 public:
  /// Receives RoCE over IPv4 and IPv6 (IPv4 alone where this kernel has no IPv6), several datagrams at once. Its own
  /// datagrams are not fragmented. Errors: EADDRINUSE, ENODEV, or the system's; each sentence names the interface.
  static Result<Socket> open(const std::string& interface);
  /// Sends from that port, and takes nothing that arrives there. Errors: the same.
  static Result<Socket> open_to_send(const std::string& interface, uint16_t port);
  /// The socket of another process, which passed it. Errors: EINVAL (it is none of these, or on another interface).
  static Result<Socket> adopt(message::Fd fd, const std::string& interface);
  Socket(Socket&& other) noexcept;
  Socket& operator=(Socket&& other) noexcept;
  ~Socket();

  int fd() const { return fd_; }
  uint16_t port() const;  ///< that it is bound to
  bool has_ipv6() const { return has_ipv6_; }
  unsigned interface_index() const { return index_; }  ///< at open()
  /// Bytes that may wait in the socket.
  uint32_t receive_buffer() const;
  /// Receives these multicast groups and no others; those that the kernel refuses are returned. One thread.
  std::set<Gid> receive_groups(std::span<const Gid> groups);
  /// Puts `fresh` in the place of this socket, under the same descriptor, while others use it. Errors: the system's.
  /// One thread.
  Result<void> replace_by(Socket fresh, const std::string& interface);

 private:
  Socket() = default;
  static Result<Socket> make(const std::string& interface);
  Result<void> set_up_sending(const std::string& interface) const;
  Result<void> set_up_receiving(const std::string& interface) const;
  bool bind_to(uint16_t port) const;
  bool change_membership(const Gid& group, bool join) const;

  int fd_ = -1;
  unsigned index_ = 0;
  bool has_ipv6_ = true;
  std::set<Gid> groups_;
};

}  // namespace uroce::glue::udp
