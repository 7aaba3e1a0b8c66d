// The kernel's addresses of one network interface: which are usable, and which is the source of a packet.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include <uroce/types.h>

#include "net/kernel_requests.h"
#include "net/rtnetlink.h"

namespace uroce::net {

/// The most addresses: what a GID table holds.
inline constexpr std::size_t kMaxKernelAddresses = 256;

class KernelAddresses {
 public:
  explicit KernelAddresses(KernelTablesCounters& counters) : counters_(counters) {}

  /// Takes news of this interface. `reading`: see TableReading::number().
  void take(const AddressNews& news, uint64_t reading);
  /// Forgets those that the reading did not mention.
  void forget_unread(uint64_t reading);

  /// The answer to KernelTables::addresses().
  std::vector<Gid> list() const;
  bool has(const Gid& gid) const;
  /// Changes whenever list() may change.
  uint64_t generation() const { return generation_; }
  bool on_subnet(const Gid& gid) const;
  /// The address that suits packets to `dgid` best.
  std::optional<Gid> source_for(const Gid& dgid) const;

 private:
  struct Address {
    uint8_t prefix = 0;
    uint32_t flags = 0;
    uint64_t order = 0;  ///< when it came
    uint64_t read = 0;   ///< the reading of the table that had it last
  };
  static bool usable(const Address& address);

  KernelTablesCounters& counters_;
  std::map<Gid, Address> addresses_;
  uint64_t generation_ = 0;
  uint64_t order_ = 0;
};

}  // namespace uroce::net
