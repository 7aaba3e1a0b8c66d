#include "netlink/dump.h"

#include <sys/socket.h>
#include <sys/time.h>

#include <array>
#include <cstring>
#include <memory>

namespace uroce::netlink {

bool dump(int bus, uint16_t type, std::span<const std::byte> request, mnl_cb_t take, void* out) {
  const std::unique_ptr<mnl_socket, decltype(&mnl_socket_close)> socket(mnl_socket_open(bus), mnl_socket_close);
  if (!socket || mnl_socket_bind(socket.get(), 0, MNL_SOCKET_AUTOPID) < 0) return false;
  const timeval limit{.tv_sec = 1, .tv_usec = 0};
  setsockopt(mnl_socket_get_fd(socket.get()), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  alignas(nlmsghdr) std::array<char, 32768> buffer{};
  constexpr uint32_t kSequence = 1;
  nlmsghdr* const header = mnl_nlmsg_put_header(buffer.data());
  header->nlmsg_type = type;
  header->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  header->nlmsg_seq = kSequence;
  std::memcpy(mnl_nlmsg_put_extra_header(header, request.size()), request.data(), request.size());
  if (mnl_socket_sendto(socket.get(), header, header->nlmsg_len) < 0) return false;
  for (int going = MNL_CB_OK; going > MNL_CB_STOP;) {
    const ssize_t bytes = mnl_socket_recvfrom(socket.get(), buffer.data(), buffer.size());
    if (bytes <= 0) return false;
    going = mnl_cb_run(buffer.data(), static_cast<std::size_t>(bytes), kSequence, mnl_socket_get_portid(socket.get()),
                       take, out);
    if (going < 0) return false;
  }
  return true;
}

}  // namespace uroce::netlink
