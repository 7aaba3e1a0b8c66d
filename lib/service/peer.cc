#include "service/peer.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "service/peer_process.h"

namespace uroce::service {
namespace {

std::string command_of(const PeerProcess& process) {
  std::string name = process.read("comm");
  name.resize(std::min(name.find('\n'), name.size()));
  // The process chose its name, and people read the log on terminals.
  std::ranges::replace_if(name, [](char c) { return c < ' ' || c > '~'; }, '?');
  return name;
}

/// Every user may read this file, while prlimit(2) tells only root and the process's own user.
uint64_t locked_bytes_of(const PeerProcess& process) {
  constexpr std::string_view kKey = "\nMax locked memory";
  const std::string limits = process.read("limits");
  const std::size_t key = limits.find(kKey);
  if (key == std::string::npos) return 0;
  const std::size_t at = limits.find_first_not_of(' ', key + kKey.size());
  if (at == std::string::npos) return 0;
  if (limits.compare(at, 9, "unlimited") == 0) return RLIM_INFINITY;
  uint64_t bytes = 0;
  std::from_chars(limits.data() + at, limits.data() + limits.size(), bytes);
  return bytes;
}

// Root of a container may run what it likes: no file gives a process a capability beyond its bounding set, which never
// grows (capabilities(7)). The namespace comes last: a process has all capabilities in a new one.
bool is_privileged(const PeerProcess& process, uint32_t uid, const DaemonRights& daemon) {
  if (uid != 0 && uid != daemon.uid) return false;
  if (uid == 0 && daemon.net_admin && !process.has_capability(CAP_NET_ADMIN)) return false;
  return process.is_in_own_user_namespace(daemon.user_namespace);
}

}  // namespace

Peer Peer::of(int socket, const DaemonRights& daemon) {
  Peer peer;
  ucred credentials{};
  socklen_t length = sizeof credentials;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) return peer;
  peer.pid = credentials.pid;
  peer.uid = credentials.uid;
  const auto process = PeerProcess::of(socket);
  if (!process) return peer;
  peer.privileged = is_privileged(*process, peer.uid, daemon);
  peer.command = command_of(*process);
  peer.namespace_owner = process->namespace_owner();
  // A set-uid program may have raised its limit. Root's may be what it likes.
  const uint64_t locked_bytes = locked_bytes_of(*process);
  if (process->runs_as(peer.uid)) peer.locked_bytes = locked_bytes;
  return peer;
}

}  // namespace uroce::service
