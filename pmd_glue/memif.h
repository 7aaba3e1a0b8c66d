// What net_memif of DPDK 22.11 leaves to its user.
#pragma once

#include <string>
#include <string_view>

namespace uroce::glue {

/// The end that connects, and fails to start without a server. `devargs`: the device's arguments.
bool is_memif_client(std::string_view devargs);
/// The control socket's name.
std::string memif_socket(std::string_view devargs);

/// Stops a server's socket from listening. The driver leaves it open, and registered with EAL's interrupt thread,
/// when its last port is closed: the next client to connect would run the driver's handler on freed memory. Comes
/// before the port is closed, on the interrupt thread.
void silence_memif_listener(std::string_view devargs);

}  // namespace uroce::glue
