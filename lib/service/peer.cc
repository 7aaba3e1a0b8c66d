#include "service/peer.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <string_view>

#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fmt/format.h>

namespace uroce::service {
namespace {

std::string command_of(int32_t pid) {
  std::ifstream file(fmt::format("/proc/{}/comm", pid));
  std::string name;
  std::getline(file, name);
  // The process chose its name, and people read the log on terminals.
  std::ranges::replace_if(name, [](char c) { return c < ' ' || c > '~'; }, '?');
  return name;
}

/// Empty where /proc does not tell.
std::string user_namespace_of(int32_t pid) {
  std::error_code error;
  const auto link = std::filesystem::read_symlink(fmt::format("/proc/{}/ns/user", pid), error);
  return error ? std::string{} : link.string();
}

/// Every user may read this file (proc(5)).
bool has_capability(int32_t pid, int capability) {
  constexpr std::string_view kKey = "CapEff:\t";
  std::ifstream file(fmt::format("/proc/{}/status", pid));
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(kKey)) continue;
    uint64_t bits = 0;
    std::from_chars(line.data() + kKey.size(), line.data() + line.size(), bits, 16);
    return (bits >> capability & 1) != 0;
  }
  return false;
}

/// Every user may read this file, while prlimit(2) tells only root and the process's own user.
uint64_t locked_bytes_of(int32_t pid) {
  constexpr std::string_view kKey = "Max locked memory";
  std::ifstream file(fmt::format("/proc/{}/limits", pid));
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(kKey)) continue;
    const std::size_t at = line.find_first_not_of(' ', kKey.size());
    if (at == std::string::npos) return 0;
    if (line.compare(at, 9, "unlimited") == 0) return RLIM_INFINITY;
    uint64_t bytes = 0;
    std::from_chars(line.data() + at, line.data() + line.size(), bytes);
    return bytes;
  }
  return 0;
}

/// A daemon that gave its own privileges up may not read another user's link. Then the ranges of uids tell, which
/// everybody may read (user_namespaces(7)).
bool same_user_namespace(int32_t pid, const std::string& own) {
  const std::string theirs = user_namespace_of(pid);
  if (!theirs.empty()) return theirs == own;
  const auto ranges = [](const std::string& process) {
    std::ifstream file(fmt::format("/proc/{}/uid_map", process));
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  const std::string map = ranges(fmt::to_string(pid));
  return !map.empty() && map == ranges("self");
}

bool is_privileged(const Peer& peer, const DaemonRights& daemon) {
  if (peer.pid == 0 || (peer.uid != 0 && peer.uid != daemon.uid)) return false;
  if (!same_user_namespace(peer.pid, daemon.user_namespace)) return false;
  return peer.uid != 0 || !daemon.net_admin || has_capability(peer.pid, CAP_NET_ADMIN);
}

}  // namespace

DaemonRights DaemonRights::of_this_process() {
  return {.uid = geteuid(),
          .net_admin = has_capability(getpid(), CAP_NET_ADMIN),
          .user_namespace = user_namespace_of(getpid())};
}

Peer Peer::of(int socket, const DaemonRights& daemon) {
  Peer peer;
  ucred credentials{};
  socklen_t length = sizeof credentials;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) return peer;
  peer.pid = credentials.pid;
  peer.uid = credentials.uid;
  peer.privileged = is_privileged(peer, daemon);
  if (peer.pid == 0) return peer;
  peer.net_raw = same_user_namespace(peer.pid, daemon.user_namespace) && has_capability(peer.pid, CAP_NET_RAW);
  peer.locked_bytes = locked_bytes_of(peer.pid);
  peer.command = command_of(peer.pid);
  return peer;
}

}  // namespace uroce::service
