#include "pmd_glue/xdp/program.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <libmnl/libmnl.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <span>
#include <utility>

#include "pmd_glue/xdp/objects.h"

namespace uroce::glue::xdp {

namespace {

constexpr const char* kFileName = "uroce-xdp";

std::unexpected<Error> failed(std::string_view call) {
  const int code = errno;
  return fail(code, fmt::format("{}: {}", call, std::strerror(code)));
}

int take_program_id(const nlattr* attribute, void* id) {
  if (mnl_attr_get_type(attribute) == IFLA_XDP_PROG_ID && mnl_attr_validate(attribute, MNL_TYPE_U32) >= 0)
    *static_cast<uint32_t*>(id) = mnl_attr_get_u32(attribute);
  return MNL_CB_OK;
}

int find_program_id(const nlattr* attribute, void* id) {
  return mnl_attr_get_type(attribute) == IFLA_XDP ? mnl_attr_parse_nested(attribute, take_program_id, id) : MNL_CB_OK;
}

}  // namespace

bool have_programs() { return !kRoceObject.empty() && !kWholeObject.empty(); }

Result<ProgramFile> ProgramFile::make() {
  const int fd = memfd_create(kFileName, MFD_CLOEXEC);
  if (fd < 0) return failed("memfd_create()");
  return ProgramFile(fd);
}

ProgramFile::~ProgramFile() {
  if (fd_ >= 0) close(fd_);
}

ProgramFile::ProgramFile(ProgramFile&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

std::string ProgramFile::path() const { return fmt::format("/proc/self/fd/{}", fd_); }

bool is_program_file(const std::string& path) {
  char target[64] = "";
  return readlink(path.c_str(), target, sizeof target - 1) > 0 &&
         std::string_view(target).starts_with(fmt::format("/memfd:{}", kFileName));
}

Result<void> write_program(const std::string& path, Steering steering) {
  if (!have_programs()) return fail(ENOTSUP, "this build has no XDP programs");
  const int fd = open(path.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC);
  if (fd < 0) return failed(fmt::format("open() of {}", path));
  const auto program = steering == Steering::roce ? kRoceObject : kWholeObject;
  const ssize_t written = write(fd, program.data(), program.size());
  const int error = written < 0 ? errno : ENOSPC;
  close(fd);
  if (written == static_cast<ssize_t>(program.size())) return {};
  return fail(error, fmt::format("write() to {}: {}", path, std::strerror(error)));
}

Result<uint32_t> attached_program(const std::string& interface) {
  const unsigned index = if_nametoindex(interface.c_str());
  if (index == 0) return failed(fmt::format("interface '{}'", interface));
  const std::unique_ptr<mnl_socket, int (*)(mnl_socket*)> socket(mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC),
                                                                 mnl_socket_close);
  if (!socket || mnl_socket_bind(socket.get(), 0, MNL_SOCKET_AUTOPID) != 0) return failed("a netlink socket");
  std::array<char, 32768> buffer{};
  nlmsghdr* request = mnl_nlmsg_put_header(buffer.data());
  request->nlmsg_type = RTM_GETLINK;
  request->nlmsg_flags = NLM_F_REQUEST;
  auto* link = static_cast<ifinfomsg*>(mnl_nlmsg_put_extra_header(request, sizeof(ifinfomsg)));
  link->ifi_index = static_cast<int>(index);
  if (mnl_socket_sendto(socket.get(), request, request->nlmsg_len) < 0) return failed("a request for an interface");
  const ssize_t size = mnl_socket_recvfrom(socket.get(), buffer.data(), buffer.size());
  if (size < 0) return failed("the answer about an interface");
  uint32_t id = 0;
  const auto read = [](const nlmsghdr* answer, void* out) {
    return mnl_attr_parse(answer, sizeof(ifinfomsg), find_program_id, out);
  };
  if (mnl_cb_run(buffer.data(), static_cast<std::size_t>(size), 0, mnl_socket_get_portid(socket.get()), read, &id) < 0)
    return failed("the answer about an interface");
  return id;
}

}  // namespace uroce::glue::xdp
