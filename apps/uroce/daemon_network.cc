#include "uroce/daemon_network.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <libmnl/libmnl.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <span>
#include <thread>

#include "netlink/dump.h"

namespace uroce::cli {

namespace {

struct Searched {
  unix_diag_vfs file{};
  bool found = false;
};

/// The kernel writes a device as 12 bits and 20.
constexpr unsigned kMinorBits = 20;

int take_attribute(const nlattr* attribute, void* out) {
  auto& searched = *static_cast<Searched*>(out);
  unix_diag_vfs file{};
  if (mnl_attr_get_type(attribute) != UNIX_DIAG_VFS || mnl_attr_get_payload_len(attribute) < sizeof file)
    return MNL_CB_OK;
  std::memcpy(&file, mnl_attr_get_payload(attribute), sizeof file);
  searched.found |=
      file.udiag_vfs_ino == searched.file.udiag_vfs_ino && file.udiag_vfs_dev == searched.file.udiag_vfs_dev;
  return MNL_CB_OK;
}

int take_socket(const nlmsghdr* message, void* out) {
  if (mnl_nlmsg_get_payload_len(message) < sizeof(unix_diag_msg)) return MNL_CB_OK;
  return mnl_attr_parse(message, sizeof(unix_diag_msg), take_attribute, out);
}

/// Whether a socket of this network namespace listens at the path (unix_diag). nullopt: the kernel does not tell.
std::optional<bool> listens_here(const std::string& path) {
  struct stat status{};
  if (stat(path.c_str(), &status) != 0) return std::nullopt;
  Searched searched;
  searched.file = {.udiag_vfs_ino = static_cast<uint32_t>(status.st_ino),
                   .udiag_vfs_dev = major(status.st_dev) << kMinorBits | minor(status.st_dev)};
  unix_diag_req asked{};
  asked.sdiag_family = AF_UNIX;
  asked.udiag_states = 1u << TCP_LISTEN;
  asked.udiag_show = UDIAG_SHOW_VFS;
  if (!netlink::dump(NETLINK_SOCK_DIAG, SOCK_DIAG_BY_FAMILY, std::as_bytes(std::span(&asked, 1)), take_socket,
                     &searched)) {
    return std::nullopt;
  }
  return searched.found;
}

std::string network_of(int process) { return fmt::format("/proc/{}/ns/net", process); }

}  // namespace

std::optional<bool> is_in_another_network(int process, const std::string& socket) {
  struct stat theirs{}, own{};
  // Of another user's process, root alone may see it.
  if (process > 0 && stat(network_of(process).c_str(), &theirs) == 0 && stat("/proc/thread-self/ns/net", &own) == 0)
    return theirs.st_ino != own.st_ino || theirs.st_dev != own.st_dev;
  const auto here = listens_here(socket);
  return here ? std::optional(!*here) : std::nullopt;
}

bool run_in_network_of(int process, const std::function<void()>& act) {
  if (process <= 0) return false;
  const int network = open(network_of(process).c_str(), O_RDONLY | O_CLOEXEC);
  if (network < 0) return false;
  bool entered = false;
  std::thread([&] {
    entered = setns(network, CLONE_NEWNET) == 0;
    if (entered) act();
  }).join();
  close(network);
  return entered;
}

}  // namespace uroce::cli
