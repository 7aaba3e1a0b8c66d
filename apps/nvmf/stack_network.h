// The stack in this process. Apart from network.h, because only the program needs DPDK.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <uroce/stack.h>

#include "nvmf/network.h"

namespace uroce::nvmf {

/// With one lcore the engines run in Network::poll(), on the thread that called this; with more on the others. Errors:
/// those of Stack::start() and ConnectionManager::open().
Result<std::unique_ptr<Network>> start_stack_network(const std::vector<std::string>& eal, const StackOptions& options);

}  // namespace uroce::nvmf
