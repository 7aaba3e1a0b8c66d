// The stack in this process. Apart from network.h, because only the program needs DPDK.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <uroce/stack.h>

#include "nvmf/network.h"

namespace uroce::nvmf {

/// A reactor for each lcore of `eal`, the first on the thread that called this. Each polls the engine of its lcore.
/// Errors: those of Stack::start() and ConnectionManager::open().
Result<std::unique_ptr<Network>> start_stack_network(const std::vector<std::string>& eal, StackOptions options);

}  // namespace uroce::nvmf
