// Chooses the way to an interface that the kernel keeps: packet sockets, or without the right to them a UDP socket.
#pragma once

#include <memory>

#include "pmd_glue/port.h"

namespace uroce::glue {

/// As KernelPort::open() or UdpPort::open().
Result<std::unique_ptr<Port>> open_interface_port(const KernelInterface& on, uint16_t number,
                                                  const PortOptions& options);

}  // namespace uroce::glue
