// NVM subsystems and their namespaces: what hosts may connect to. Plain values, built at the start, of which nothing
// changes but the sizes of disks, so that any thread may read them.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <uroce/error.h>

#include "nvmf/backend.h"

namespace uroce::nvmf {

struct Namespace {
  uint32_t nsid = 1;
  uint8_t block_shift = 12;         ///< log2 of the block size in bytes
  std::array<uint8_t, 16> nguid{};  ///< follows from the subsystem's NQN and nsid, so it stays the same after a restart
  std::unique_ptr<Backend> backend{};

  uint64_t blocks() const { return backend->bytes() >> block_shift; }
};

struct Subsystem {
  std::string nqn{};
  std::string serial{};  ///< 20 characters, from the NQN
  std::vector<Namespace> namespaces{};
  bool any_host = false;
  std::set<std::string, std::less<>> hosts{};  ///< NQNs that may connect
  bool discovery = false;

  /// Null when there is none.
  const Namespace* find(uint32_t nsid) const;
  bool allows(std::string_view host_nqn) const { return any_host || hosts.contains(host_nqn); }
};

/// A namespace as the configuration names it.
struct NamespaceSettings {
  std::string path{};         ///< a regular file or a block device; empty: memory
  uint64_t memory_bytes = 0;  ///< without a path
};
struct SubsystemSettings {
  std::string nqn{};
  std::vector<NamespaceSettings> namespaces{};
  std::vector<std::string> hosts{};  ///< NQNs; empty: every host
};

/// Opens the namespaces, numbered from 1. Errors: those of the backends; EINVAL (an NQN).
Result<Subsystem> open_subsystem(const SubsystemSettings& settings);
/// The discovery subsystem, which every host may ask.
Subsystem discovery_subsystem();
/// Why this cannot be an NQN (NVMe 1.4, 7.9), or nothing.
std::string fault_of_nqn(std::string_view nqn);

}  // namespace uroce::nvmf
