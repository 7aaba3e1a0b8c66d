// A packet socket on a network interface of the kernel (packet(7)).
#pragma once

#include <cstdint>
#include <string>

#include <uroce/error.h>

#include "message/connection.h"

namespace uroce::glue::kif {

/// Bytes that a socket asks for: the window of many queue pairs. Only what waits takes memory. The kernel doubles them
/// for its own overhead (socket(7)), and without CAP_NET_ADMIN gives no more than twice net.core.rmem_max.
inline constexpr uint32_t kReceiveBuffer = 32 << 20;
inline constexpr uint32_t kFullReceiveBuffer = 2 * kReceiveBuffer;
/// Bytes for frames on their way out, likewise: fifteen super-frames. Linux's default holds three, too few while
/// another thread has the engine's core. Many more would be a queue of their own: 1 MiB is 8 ms of 1 Gb/s.
inline constexpr uint32_t kSendBuffer = 512 << 10;
/// Of more READ responses at a time the receiver copies what no cache holds: with 8 MiB READs had 0.6 of a WRITE's
/// rate.
inline constexpr uint32_t kReadBytes = 1 << 20;

/// READ responses of `payload` bytes that a queue pair may wait for, packets: at most half of what the kernel lets wait
/// in a socket as frames of `max_frame` bytes, and at most kReadBytes.
uint32_t read_window_packets(uint32_t max_frame, uint32_t payload);
/// Asks the kernel for a buffer of that size, for a socket of any kind.
void ask_for_receive_buffer(int fd);
void ask_for_send_buffer(int fd);
/// Bytes that may wait in the socket.
uint32_t receive_buffer_of(int fd);

struct SocketOptions {
  std::string interface;
  uint16_t vlan = 0;  ///< 802.1Q id of the frames to receive; 0: untagged ones
};

class Socket {
 public:
  /// A socket that receives RoCE, ARP, ICMP, IGMP and ICMPv6, and sends anything, without waiting; each frame follows a
  /// virtio_net_hdr. Needs CAP_NET_RAW. Errors: ENODEV, EPERM, or the system's; each sentence names the interface.
  static Result<Socket> open(const SocketOptions& options);
  /// The socket of another process, which passed it. Errors: EINVAL (it is none of open(), or on another interface).
  static Result<Socket> adopt(message::Fd fd, const SocketOptions& options);
  Socket(Socket&& other) noexcept;
  Socket& operator=(Socket&& other) noexcept;
  ~Socket();

  int fd() const { return fd_; }
  /// Spreads the interface's frames over the `sockets` sockets that share it, each to that of its queue pair's engine;
  /// the first of them begins with nullptr. Errors: the system's, with the interface's name.
  Result<void> share(const Socket* first, uint32_t sockets, const std::string& interface) const;
  /// Bytes that may wait in the socket.
  uint32_t receive_buffer() const;
  /// Frames lost since the last call because too many waited. Any thread.
  uint32_t take_lost() const;
  /// The interface that it is on; 0 if that one went away, also where another has its index now. Any thread.
  unsigned interface_index() const;
  /// Follows the interface to the index that it has now, for one that went and came back. Not for a socket that shares
  /// flows: the kernel binds those once. Any thread.
  Result<void> bind_again(const SocketOptions& options) const;
  /// Puts `fresh` in the place of this socket, under the same descriptor, while others use it. Errors: the system's.
  /// One thread.
  Result<void> replace_by(Socket fresh, const std::string& interface) const;

 private:
  Socket() = default;
  Result<void> set_up(const SocketOptions& options) const;
  Result<void> bind_to(const SocketOptions& options) const;
  Result<void> begin_sharing(uint32_t sockets, const std::string& interface) const;
  int fd_ = -1;
};

}  // namespace uroce::glue::kif
