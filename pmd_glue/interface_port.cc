#include "pmd_glue/interface_port.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "pmd_glue/kernel_port.h"
#include "pmd_glue/notes.h"
#include "pmd_glue/udp_port.h"

namespace uroce::glue {

namespace {

bool may_open_packet_sockets() {
  const int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
  if (fd >= 0) close(fd);
  return fd >= 0 || (errno != EPERM && errno != EACCES);
}

/// The daemon before has chosen. This process may lack the right to open what it passes.
Result<std::unique_ptr<Port>> open_inherited(const KernelInterface& on, uint16_t number, const PortOptions& options) {
  return UdpPort::has_lent(*options.inherited, options.device) ? UdpPort::open(on, number, options)
                                                               : KernelPort::open(on, number, options);
}

}  // namespace

Result<std::unique_ptr<Port>> open_interface_port(const KernelInterface& on, uint16_t number,
                                                  const PortOptions& options) {
  if (options.inherited != nullptr) return open_inherited(on, number, options);
  if (on.udp) return UdpPort::open(on, number, options);
  if (may_open_packet_sockets()) return KernelPort::open(on, number, options);
  note(fmt::format("port {}: there is no CAP_NET_RAW for packet sockets on {}, so RoCE passes by a UDP socket", on.port,
                   on.interface),
       NoteLevel::info);
  return UdpPort::open(on, number, options);
}

}  // namespace uroce::glue
