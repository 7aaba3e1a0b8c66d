// Work that net_memif of DPDK 22.11 leaves to its user.
#pragma once

#include <string>
#include <string_view>

namespace uroce::glue {

/// True for the end that connects; it fails to start without a server. `devargs` are the device's arguments.
bool is_memif_client(std::string_view devargs);
/// The control socket's name.
std::string memif_socket(std::string_view devargs);

/// Stops a server's socket from listening. When its last port is closed, the driver leaves the socket open and
/// registered with EAL's interrupt thread, so the next client would run the driver's handler on freed memory. Call it
/// on the interrupt thread before the port is closed.
void silence_memif_listener(std::string_view devargs);

}  // namespace uroce::glue
