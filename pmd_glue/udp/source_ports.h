// The UDP source ports of a UDP port, so that switches with several paths (ECMP) and receivers with several queues
// (RSS) tell its flows apart (IBTA vol. 1, A17.3.1). The kernel sends a socket's own port alone, so each has a socket.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <uroce/error.h>

#include "pmd_glue/udp/socket.h"

namespace uroce::glue::udp {

/// Eight flows fill a few paths or queues. Each costs a descriptor and a send buffer, and more flows would make shorter
/// super-frames and more system calls of a burst.
inline constexpr std::size_t kSourcePorts = 8;
/// They are taken from here on: above what Linux gives to programs (ip_local_port_range, ip(7)).
inline constexpr uint16_t kFirstSourcePort = 0xf000;

/// The flow of a frame for which the engine chose that port. All bits count, because an engine makes ports of products
/// of queue pair numbers, which are seldom odd. The factor is 2^16 by the golden ratio (Knuth, volume 3, 6.4).
constexpr std::size_t flow_of(uint16_t port) { return static_cast<uint16_t>(port * 40503u) >> 13; }

class SourcePorts {
 public:
  /// How a frame leaves.
  struct Way {
    int fd;
    uint16_t port;
    bool operator==(const Way&) const = default;
  };

  /// Binds a port for each flow, one that flow_of() maps to it, so that a frame that waits with its new port goes the
  /// same way. A flow without a free port shares another one's, and all share that of `receiver`, which outlives this,
  /// where none is free.
  /// `inherited`: sockets of the daemon before, which come first.
  SourcePorts(const std::string& interface, const Socket& receiver, std::vector<Socket> inherited = {});

  const Way& way_of(uint16_t port) const { return ways_[flow_of(port)]; }
  /// Says how many ports there are, as a part of a sentence.
  std::string description() const;
  const std::vector<Socket>& sockets() const { return sockets_; }
  /// Sockets of the same ports, for an interface that came back. Errors: those of Socket::open_to_send().
  Result<std::vector<Socket>> open_again(const std::string& interface) const;
  /// Puts them in the places of these, while others use them. Errors: the system's. One thread.
  Result<void> replace_by(std::vector<Socket> fresh, const std::string& interface);

 private:
  void add(Socket socket, std::size_t flow, uint16_t port);
  /// Takes a port for a flow. False if none is free.
  bool bind_one(const std::string& interface, std::size_t flow);

  std::vector<Socket> sockets_;
  std::vector<uint16_t> ports_;  ///< of sockets_
  std::array<Way, kSourcePorts> ways_{};
};

}  // namespace uroce::glue::udp
