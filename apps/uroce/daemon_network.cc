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
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <thread>

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
  const std::unique_ptr<mnl_socket, decltype(&mnl_socket_close)> socket(mnl_socket_open(NETLINK_SOCK_DIAG),
                                                                        mnl_socket_close);
  if (!socket || mnl_socket_bind(socket.get(), 0, MNL_SOCKET_AUTOPID) < 0) return std::nullopt;
  const timeval limit{.tv_sec = 1, .tv_usec = 0};
  setsockopt(mnl_socket_get_fd(socket.get()), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  alignas(nlmsghdr) std::array<char, 32768> buffer{};
  constexpr uint32_t kSequence = 1;
  nlmsghdr* request = mnl_nlmsg_put_header(buffer.data());
  request->nlmsg_type = SOCK_DIAG_BY_FAMILY;
  request->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  request->nlmsg_seq = kSequence;
  auto* asked = static_cast<unix_diag_req*>(mnl_nlmsg_put_extra_header(request, sizeof(unix_diag_req)));
  asked->sdiag_family = AF_UNIX;
  asked->udiag_states = 1u << TCP_LISTEN;
  asked->udiag_show = UDIAG_SHOW_VFS;
  if (mnl_socket_sendto(socket.get(), request, request->nlmsg_len) < 0) return std::nullopt;
  for (int going = MNL_CB_OK; going > MNL_CB_STOP;) {
    const ssize_t bytes = mnl_socket_recvfrom(socket.get(), buffer.data(), buffer.size());
    if (bytes <= 0) return std::nullopt;
    going = mnl_cb_run(buffer.data(), static_cast<std::size_t>(bytes), kSequence, mnl_socket_get_portid(socket.get()),
                       take_socket, &searched);
    if (going < 0) return std::nullopt;
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
