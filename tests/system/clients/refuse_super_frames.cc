// Preloaded into the programs that have a port on an interface of the kernel: refuses super-frames as a kernel without
// them does, before Linux 6.2. UROCE_TEST_REFUSES=always: also when asked at the start. UROCE_TEST_REFUSES=later: only
// those of the port.
#include <dlfcn.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <string_view>

namespace {

constexpr std::size_t kVirtioHeader = 10;
constexpr uint8_t kUdpSegments = 5;  // VIRTIO_NET_HDR_GSO_UDP_L4

template <class Function>
Function next(Function /*of this name*/, const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

bool is_super(const msghdr& message) {
  return message.msg_iovlen > 1 && message.msg_iov[0].iov_len == kVirtioHeader &&
         static_cast<const uint8_t*>(message.msg_iov[0].iov_base)[1] == kUdpSegments;
}

bool refuses_always() {
  const char* when = std::getenv("UROCE_TEST_REFUSES");
  return when != nullptr && std::string_view(when) == "always";
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  if (is_super(*message) && refuses_always()) {
    errno = EINVAL;
    return -1;
  }
  return next(&sendmsg, "sendmsg")(fd, message, flags);
}

int sendmmsg(int fd, mmsghdr* messages, unsigned count, int flags) {
  unsigned taken = 0;
  while (taken < count && !is_super(messages[taken].msg_hdr)) ++taken;
  if (taken == 0 && count != 0) {
    errno = EINVAL;
    return -1;
  }
  return next(&sendmmsg, "sendmmsg")(fd, messages, taken, flags);
}

}  // extern "C"
#pragma GCC visibility pop
