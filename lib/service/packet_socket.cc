#include "service/packet_socket.h"

#include <algorithm>
#include <cerrno>
#include <string_view>

#include <sys/socket.h>
#include <sys/stat.h>

#include <fmt/format.h>

#include "service/peer_process.h"

namespace uroce::service {
namespace {

bool is_packet_socket(int fd) {
  int family = 0;
  socklen_t length = sizeof family;
  return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &length) == 0 && family == AF_PACKET;
}

/// Whether /proc/net/packet has a socket of this inode: the last column of a line.
bool lists_inode(std::string_view sockets, ino_t inode) {
  const std::string wanted = fmt::format(" {}", inode);
  while (!sockets.empty()) {
    const std::size_t end = std::min(sockets.find('\n'), sockets.size());
    std::string_view line = sockets.substr(0, end);
    line = line.substr(0, line.find_last_not_of(' ') + 1);
    if (line.ends_with(wanted)) return true;
    sockets.remove_prefix(std::min(end + 1, sockets.size()));
  }
  return false;
}

}  // namespace

// No process is in a user namespace and in a network namespace of a lower one, unless root of the former put it there.
// The user namespace is asked for last: the process may leave it, and does not come back.
Result<void> check_packet_socket(int fd, int connection, const DaemonRights& daemon) {
  if (!is_packet_socket(fd)) return fail(EPERM, "the descriptor is no packet socket");
  const uint64_t network = network_namespace_of(fd);
  if (network != 0 && network == daemon.network_namespace) return {};
  struct stat file{};
  const auto process = PeerProcess::of(connection);
  if (!process || fstat(fd, &file) != 0) return fail(EPERM, "the process is not seen in the daemon's /proc");
  if (lists_inode(process->read("net/packet"), file.st_ino) &&
      process->is_in_own_user_namespace(daemon.user_namespace)) {
    return {};
  }
  return fail(EPERM,
              "its packet socket is neither of the daemon's network namespace, nor of its own one within the "
              "daemon's user namespace");
}

}  // namespace uroce::service
