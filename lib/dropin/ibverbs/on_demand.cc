#include "dropin/ibverbs/on_demand.h"

#include <unistd.h>

#include <algorithm>

#include "sharing/mappings.h"

namespace uroce::dropin {

namespace {

uint64_t page_bytes() {
  static const auto kBytes = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return kBytes;
}

/// Checks an entry of ibv_advise_mr() against its region. 0, or an errno value as ibv_advise_mr(3) has them.
int check_advice(const VerbsMr* mr, ibv_pd* pd, bool to_write, const ibv_sge& range) {
  if (mr == nullptr) return EFAULT;
  if (&of(mr->pd)->domain() != &of(pd)->domain()) return EPERM;
  if (to_write && (mr->access & IBV_ACCESS_LOCAL_WRITE) == 0) return EPERM;
  if (mr->implicit != nullptr) return 0;
  const uint64_t offset = range.addr - mr->base;
  return offset <= mr->length && range.length <= mr->length - offset ? 0 : EFAULT;
}

/// The region with that key; nullptr: there is none. The caller has the lock.
const VerbsMr* region_of(const SharedContext& shared, uint32_t lkey) {
  const auto found = shared.on_demand.find(lkey);
  if (found != shared.on_demand.end()) return found->second;
  const auto other = std::ranges::find_if(shared.mrs, [&](const auto& entry) { return entry.second->lkey == lkey; });
  return other != shared.mrs.end() ? other->second : nullptr;
}

/// The region and, where it is an implicit one, its memory, which another thread may deregister meanwhile.
int check_advice(SharedContext& shared, ibv_pd* pd, bool to_write, const ibv_sge& range,
                 std::shared_ptr<ImplicitRegion>& implicit) {
  const std::lock_guard lock(shared.mutex);
  const VerbsMr* mr = region_of(shared, range.lkey);
  if (const int error = check_advice(mr, pd, to_write, range); error != 0) return error;
  implicit = mr->implicit;
  return 0;
}

}  // namespace

std::vector<ImplicitRegion::Run> ImplicitRegion::runs_of(uint64_t first, uint64_t end) {
  std::vector<Run> runs;
  const auto mappings = sharing::read_mappings(first, end);
  if (!mappings) return runs;
  for (const sharing::Mapping& mapping : *mappings) {
    const uint64_t from = std::max<uint64_t>(first, mapping.first), to = std::min<uint64_t>(end, mapping.end);
    // Private memory without a file has no offset that would tell it from other such memory.
    const Run run{mapping.device, mapping.inode, mapping.inode != 0 ? mapping.offset_of(from) : 0, to - from};
    Run* last = runs.empty() ? nullptr : &runs.back();
    const bool goes_on = last != nullptr && last->device == run.device && last->inode == run.inode &&
                         (run.inode == 0 || last->offset + last->length == run.offset);
    if (goes_on) {
      last->length += run.length;
    } else {
      runs.push_back(run);
    }
  }
  return runs;
}

ImplicitRegion::Part* ImplicitRegion::find(uint64_t first, uint64_t end) {
  for (auto at = parts_.upper_bound(first); at != parts_.begin();) {
    --at;
    if (at->second.end >= end) return &at->second;
    if (at->first + longest_ < end) break;
  }
  return nullptr;
}

// Memory that the program may only read can be sent from, whatever the region's rights are.
Result<MemoryRegion> ImplicitRegion::register_pages(uint64_t first, uint64_t end) {
  auto* const pages = reinterpret_cast<void*>(first);  // NOLINT(performance-no-int-to-ptr): a work request's address
  auto region = domain_->register_memory(pages, end - first, access_);
  if (region || region.error().code != EFAULT || access_ == AccessFlags{}) return region;
  return domain_->register_memory(pages, end - first, {});
}

Result<uint32_t> ImplicitRegion::key_of(uint64_t address, uint64_t length) {
  const uint64_t page = page_bytes();
  if (address > UINT64_MAX - page || length > UINT64_MAX - page - address)
    return fail(EFAULT, "a work request names memory beyond the end of the address space");
  const uint64_t first = address / page * page, end = (address + length + page - 1) / page * page;
  const std::lock_guard lock(mutex_);
  if (const Part* part = find(first, end); part != nullptr) {
    const uint64_t from = reinterpret_cast<uint64_t>(part->region.address());
    if (part->runs == runs_of(from, part->end)) return part->region.lkey();
  }
  auto region = register_pages(first, end);
  if (!region) return std::unexpected(region.error());
  const uint32_t key = region->lkey();
  longest_ = std::max(longest_, end - first);
  Part part{end, std::move(*region), runs_of(first, end)};  // registering may have moved the pages
  const auto [at, added] = parts_.try_emplace(first, std::move(part));
  if (!added) {
    std::swap(at->second, part);
    replaced_.push_back(std::move(part.region));
  }
  return key;
}

int resolve_implicit(SharedContext& shared, std::span<Sge> sges) {
  for (Sge& sge : sges) {
    std::shared_ptr<ImplicitRegion> implicit;
    {
      const std::lock_guard lock(shared.mutex);
      const auto found = shared.on_demand.find(sge.lkey);
      if (found != shared.on_demand.end()) implicit = found->second->implicit;
    }
    if (implicit == nullptr || sge.length == 0) continue;
    const auto key = implicit->key_of(sge.addr, sge.length);
    if (!key) return report(key.error());
    sge.lkey = *key;
  }
  return 0;
}

int ResolvedSges::resolve(SharedContext& shared, std::span<const Sge> sges) {
  if (sges.size() > sges_.size()) return EINVAL;
  count_ = sges.size();
  std::ranges::copy(sges, sges_.begin());
  return resolve_implicit(shared, std::span(sges_).first(count_));
}

int advise_mr(ibv_pd* pd, ibv_advise_mr_advice advice, uint32_t flags, ibv_sge* list, uint32_t count) {
  if (advice > IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT) {
    return refuse(EOPNOTSUPP, "ibv_advise_mr(): only the PREFETCH advices are offered");
  }
  if ((flags & ~uint32_t{IBV_ADVISE_MR_FLAG_FLUSH}) != 0 || list == nullptr || count == 0) return EINVAL;
  if (check_live(pd, EINVAL) != 0) return EINVAL;
  for (const ibv_sge& range : std::span(list, count)) {
    std::shared_ptr<ImplicitRegion> implicit;
    const bool to_write = advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;
    const int error = check_advice(*of(pd->context)->shared, pd, to_write, range, implicit);
    if (error != 0) return failed(error);
    // The pages of a region that is not implicit are there. NO_FAULT asks for pages that are there, too; a request will
    // find them.
    if (implicit == nullptr || range.length == 0 || advice == IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT) continue;
    if (const auto key = implicit->key_of(range.addr, range.length); !key) return report(key.error());
  }
  return 0;
}

}  // namespace uroce::dropin
