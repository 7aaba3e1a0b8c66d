#include "uroce/doctor_kernel_facts.h"

#include <linux/io_uring.h>
#include <linux/neighbour.h>
#include <linux/netlink.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>

#include "net/rtnetlink.h"

namespace uroce::cli {

namespace {

namespace fs = std::filesystem;

constexpr unsigned kRocePort = 4791;

template <class T>
T number_in(const char* path, T otherwise) {
  T value{};
  return std::ifstream(path) >> value ? value : otherwise;
}

/// Whether a socket's buffer may be larger than net.core.rmem_max. One of any kind shows it.
bool may_have_large_buffers() {
  const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  const int bytes = 1 << 20;
  const bool may = setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes) == 0;
  close(fd);
  return may;
}

/// Of the kernel's RoCE devices only rxe names its interface.
std::vector<KernelRoce> read_kernel_roce() {
  std::vector<KernelRoce> out;
  std::error_code error;
  for (const fs::directory_entry& device : fs::directory_iterator("/sys/class/infiniband", error)) {
    std::string interface;
    if (std::ifstream(device.path() / "parent") >> interface) out.push_back({device.path().filename(), interface});
  }
  return out;
}

/// proc_pid_net(5): "sl local_address ...", of which the address is HEX:PORT.
bool any_address_has_roce_port(const char* path) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    char address[33] = "";
    unsigned port = 0;
    if (std::sscanf(line.c_str(), " %*[0-9]: %32[0-9A-Fa-f]:%x", address, &port) != 2 || port != kRocePort) continue;
    if (std::string_view(address).find_first_not_of('0') == std::string_view::npos) return true;
  }
  return false;
}

bool is_installed(const char* program) {
  const char* path = std::getenv("PATH");
  std::string folders = (path != nullptr ? path : "") + std::string(":/usr/bin:/usr/local/bin:");
  for (std::size_t begin = 0, end; (end = folders.find(':', begin)) != std::string::npos; begin = end + 1) {
    const std::string folder = folders.substr(begin, end - begin);
    if (!folder.empty() && access((folder + "/" + program).c_str(), X_OK) == 0) return true;
  }
  return false;
}

int error_of_io_uring() {
  io_uring_params parameters{};
  const long fd = syscall(__NR_io_uring_setup, 1, &parameters);
  if (fd < 0) return errno;
  close(static_cast<int>(fd));
  return 0;
}

}  // namespace

std::vector<Gid> failed_neighbours(unsigned interface) {
  std::vector<Gid> out;
  const int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
  if (fd < 0) return out;
  const timeval limit{.tv_sec = 1, .tv_usec = 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  const auto request = net::ask_table(net::KernelTable::neighbours, interface, 1);
  bool going = send(fd, request.data(), request.size(), 0) == static_cast<ssize_t>(request.size());
  std::vector<std::byte> datagram(1 << 16);
  while (going) {
    const ssize_t bytes = recv(fd, datagram.data(), datagram.size(), 0);
    if (bytes <= 0) break;
    bool ended = false;
    const std::span whole(datagram.data(), static_cast<std::size_t>(bytes));
    going = net::parse_rtnetlink(whole, [&](const net::KernelMessage& message) {
      ended |= std::holds_alternative<net::AnswerEnd>(message.news);
      const auto* const one = std::get_if<net::NeighbourNews>(&message.news);
      if (one != nullptr && one->interface == interface && (one->state & NUD_FAILED) != 0) out.push_back(one->gid);
    });
    going = going && !ended;
  }
  close(fd);
  return out;
}

bool roce_port_is_taken() {
  return any_address_has_roce_port("/proc/thread-self/net/udp") ||
         any_address_has_roce_port("/proc/thread-self/net/udp6");
}

void read_kernel_facts(Facts& facts) {
  facts.large_buffers = may_have_large_buffers();
  facts.receive_buffer_limit = number_in<uint64_t>("/proc/sys/net/core/rmem_max", 0);
  facts.kernel_roce = read_kernel_roce();
  facts.nvmf_installed = is_installed("uroce_nvmf");
  facts.io_uring_disabled = number_in("/proc/sys/kernel/io_uring_disabled", 0);
  facts.io_uring_error = error_of_io_uring();
}

}  // namespace uroce::cli
