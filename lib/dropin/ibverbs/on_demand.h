// On-demand paging (IBV_ACCESS_ON_DEMAND of ibv_reg_mr(3), ibv_advise_mr(3)).
//
// An explicit region is registered as any other: its pages are there at once. An implicit region stands for all memory
// of the process. Its key is resolved when a work request is posted: the pages that the request names are registered,
// and their own key takes its place. The next request for them finds that registration.
#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <vector>

#include <uroce/verbs/protection_domain.h>

#include "dropin/ibverbs/objects.h"

namespace uroce::dropin {

/// The memory behind the implicit region's key, as far as it was used. Any thread.
class ImplicitRegion {
 public:
  ImplicitRegion(ProtectionDomain& domain, AccessFlags access) : domain_(&domain), access_(access) {}

  /// The key of a region with the pages of [address, address + length). Errors: EFAULT (not mapped), and those of
  /// ProtectionDomain::register_memory().
  Result<uint32_t> key_of(uint64_t address, uint64_t length);

 private:
  /// A run of bytes of one file at these addresses. Where another one is there later, the program has unmapped the
  /// memory and mapped other memory, and the registration is of pages that it does not see.
  struct Run {
    uint64_t device, inode, offset, length;
    bool operator==(const Run&) const = default;
  };
  struct Part {
    uint64_t end;
    MemoryRegion region;
    std::vector<Run> runs;
  };
  static std::vector<Run> runs_of(uint64_t first, uint64_t end);
  Part* find(uint64_t first, uint64_t end);
  Result<MemoryRegion> register_pages(uint64_t first, uint64_t end);

  ProtectionDomain* domain_;  // the region's user keeps it
  AccessFlags access_;
  std::mutex mutex_;
  std::map<uint64_t, Part> parts_;      // by their first address; they may overlap
  uint64_t longest_ = 0;                // bytes of the longest part so far
  std::vector<MemoryRegion> replaced_;  // by longer parts; posted requests may name them still
};

/// Whether the arguments of a registration mean all memory of the process.
inline bool is_implicit(const void* address, std::size_t length, unsigned access) {
  return (access & IBV_ACCESS_ON_DEMAND) != 0 && address == nullptr && length == SIZE_MAX;
}

/// Whether requests may have keys of implicit regions.
inline bool may_have_implicit(const SharedContext& shared) {
  return shared.has_implicit.load(std::memory_order_relaxed);
}
/// Replaces the keys of implicit regions. 0, or an errno value.
int resolve_implicit(SharedContext& shared, std::span<Sge> sges);

/// A request's entries with the keys of implicit regions replaced.
class ResolvedSges {
 public:
  /// 0, or an errno value.
  int resolve(SharedContext& shared, std::span<const Sge> sges);
  std::span<const Sge> get() const { return std::span(sges_).first(count_); }

 private:
  std::array<Sge, kMaxSge> sges_;
  std::size_t count_ = 0;
};

int advise_mr(ibv_pd* pd, ibv_advise_mr_advice advice, uint32_t flags, ibv_sge* list, uint32_t count);

}  // namespace uroce::dropin
