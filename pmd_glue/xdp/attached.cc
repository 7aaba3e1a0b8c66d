#include "pmd_glue/xdp/attached.h"

#include <fmt/format.h>
#include <libmnl/libmnl.h>
#include <linux/bpf.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include "pmd_glue/netdev.h"
#include "wire/headers.h"

namespace uroce::glue::xdp {

namespace {

constexpr std::string_view kProgramName = "uroce_steering";  // the function in steering.bpf.c

using Buffer = std::array<char, 32768>;

/// Sends a request and gives the answer to `take`. False, with errno, when the kernel refuses.
bool converse(nlmsghdr* request, mnl_cb_t take, void* out) {
  const std::unique_ptr<mnl_socket, int (*)(mnl_socket*)> socket(mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC),
                                                                 mnl_socket_close);
  if (!socket || mnl_socket_bind(socket.get(), 0, MNL_SOCKET_AUTOPID) != 0) return false;
  if (mnl_socket_sendto(socket.get(), request, request->nlmsg_len) < 0) return false;
  Buffer buffer;
  const ssize_t size = mnl_socket_recvfrom(socket.get(), buffer.data(), buffer.size());
  return size >= 0 && mnl_cb_run(buffer.data(), static_cast<std::size_t>(size), 0, mnl_socket_get_portid(socket.get()),
                                 take, out) >= MNL_CB_STOP;
}

int take_program_id(const nlattr* attribute, void* id) {
  if (mnl_attr_get_type(attribute) == IFLA_XDP_PROG_ID && mnl_attr_validate(attribute, MNL_TYPE_U32) >= 0)
    *static_cast<uint32_t*>(id) = mnl_attr_get_u32(attribute);
  return MNL_CB_OK;
}

int find_program_id(const nlattr* attribute, void* id) {
  return mnl_attr_get_type(attribute) == IFLA_XDP ? mnl_attr_parse_nested(attribute, take_program_id, id) : MNL_CB_OK;
}

long bpf(bpf_cmd command, bpf_attr& attributes) { return syscall(SYS_bpf, command, &attributes, sizeof attributes); }

bool is_ours(int program) {
  bpf_prog_info info{};
  bpf_attr attributes{};
  attributes.info.bpf_fd = static_cast<uint32_t>(program);
  attributes.info.info_len = sizeof info;
  attributes.info.info = reinterpret_cast<uintptr_t>(&info);
  return bpf(BPF_OBJ_GET_INFO_BY_FD, attributes) == 0 && info.name == kProgramName;
}

/// Whether a socket takes RoCE from one of the interface's queues. The kernel runs the program on a frame of ours: it
/// redirects the frame if the queue has a socket. True also where the kernel cannot say.
bool is_in_use(int program, unsigned interface, uint32_t queues) {
  std::array<uint8_t, 64> frame{};  // Ethernet, IPv4, UDP to port 4791
  frame[12] = 0x08;
  frame[14] = 0x45;
  frame[23] = IPPROTO_UDP;
  frame[36] = wire::kUdpPort >> 8;
  frame[37] = wire::kUdpPort & 0xff;
  for (uint32_t queue = 0; queue < queues; ++queue) {
    xdp_md context{};
    context.data_end = frame.size();
    context.ingress_ifindex = interface;
    context.rx_queue_index = queue;
    bpf_attr attributes{};
    attributes.test.prog_fd = static_cast<uint32_t>(program);
    attributes.test.data_in = reinterpret_cast<uintptr_t>(frame.data());
    attributes.test.data_size_in = frame.size();
    attributes.test.ctx_in = reinterpret_cast<uintptr_t>(&context);
    attributes.test.ctx_size_in = sizeof context;
    attributes.test.repeat = 1;
    if (bpf(BPF_PROG_TEST_RUN, attributes) != 0 || attributes.test.retval != XDP_PASS) return true;
  }
  return false;
}

/// Only if it is still attached.
bool detach(unsigned interface, int program) {
  Buffer buffer{};
  nlmsghdr* request = mnl_nlmsg_put_header(buffer.data());
  request->nlmsg_type = RTM_SETLINK;
  request->nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK;
  auto* link = static_cast<ifinfomsg*>(mnl_nlmsg_put_extra_header(request, sizeof(ifinfomsg)));
  link->ifi_index = static_cast<int>(interface);
  nlattr* nest = mnl_attr_nest_start(request, IFLA_XDP);
  mnl_attr_put_u32(request, IFLA_XDP_FD, UINT32_MAX);
  mnl_attr_put_u32(request, IFLA_XDP_FLAGS, XDP_FLAGS_REPLACE);
  mnl_attr_put_u32(request, IFLA_XDP_EXPECTED_FD, static_cast<uint32_t>(program));
  mnl_attr_nest_end(request, nest);
  return converse(request, nullptr, nullptr);
}

}  // namespace

Result<uint32_t> attached_program(const std::string& interface) {
  Buffer buffer{};
  nlmsghdr* request = mnl_nlmsg_put_header(buffer.data());
  request->nlmsg_type = RTM_GETLINK;
  request->nlmsg_flags = NLM_F_REQUEST;
  auto* link = static_cast<ifinfomsg*>(mnl_nlmsg_put_extra_header(request, sizeof(ifinfomsg)));
  link->ifi_index = static_cast<int>(if_nametoindex(interface.c_str()));
  uint32_t id = 0;
  const auto read = [](const nlmsghdr* answer, void* out) {
    return mnl_attr_parse(answer, sizeof(ifinfomsg), find_program_id, out);
  };
  if (link->ifi_index != 0 && converse(request, read, &id)) return id;
  const int error = errno;
  return fail(error, fmt::format("the kernel tells nothing of interface '{}': {}", interface, std::strerror(error)));
}

bool remove_stale_program(const std::string& interface, uint32_t id) {
  const unsigned index = if_nametoindex(interface.c_str());
  bpf_attr attributes{};
  attributes.prog_id = id;
  const auto program = static_cast<int>(bpf(BPF_PROG_GET_FD_BY_ID, attributes));
  if (program < 0) return false;
  const bool removed = index != 0 && is_ours(program) && !is_in_use(program, index, netdev_queues(interface).receive) &&
                       detach(index, program);
  close(program);
  return removed;
}

}  // namespace uroce::glue::xdp
