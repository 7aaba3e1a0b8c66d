// Counts the system calls of a piece of code.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace uroce::test {

/// Runs `pieces` in their order in a child of this process, which has the calling thread alone, and returns how many
/// system calls each made, besides clock_gettime(2). Only what they do to shared memory and to descriptors is left
/// behind. Empty: a piece ended the child. nullopt: this process may trace no child.
std::optional<std::vector<std::size_t>> count_system_calls(std::span<const std::function<void()>> pieces);

}  // namespace uroce::test
