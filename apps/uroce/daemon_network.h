// The daemon's network namespace (network_namespaces(7)), where its interfaces are. That of a container is another one.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace uroce::cli {

/// Whether the daemon, listening at `socket`, has another network namespace than the calling thread. `process`: its id
/// here, or 0. nullopt: neither its process nor the kernel's list of sockets tells.
std::optional<bool> is_in_another_network(int process, const std::string& socket);

/// Runs `act` on a thread in the network namespace of a process, and waits for it. False, without running it: this
/// process may not enter (it needs CAP_SYS_ADMIN).
bool run_in_network_of(int process, const std::function<void()>& act);

}  // namespace uroce::cli
