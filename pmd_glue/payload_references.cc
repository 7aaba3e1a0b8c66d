#include "pmd_glue/payload_references.h"

#include <algorithm>
#include <cassert>

namespace uroce::glue {
namespace {

void never_freed(void*, void*) { assert(!"the sink's own reference is never dropped"); }

}  // namespace

PayloadReferences::PayloadReferences(TxPath& path) : path_(path) {
  for (rte_mbuf_ext_shared_info& shared : shared_) shared.free_cb = never_freed;
  forget();
}

void PayloadReferences::forget() {
  for (rte_mbuf_ext_shared_info& shared : shared_) rte_mbuf_ext_refcnt_set(&shared, 1);
}

bool PayloadReferences::any() {
  const auto referenced = [](const rte_mbuf_ext_shared_info& shared) { return rte_mbuf_ext_refcnt_read(&shared) > 1; };
  if (std::ranges::any_of(shared_, referenced)) path_.reclaim();
  return std::ranges::any_of(shared_, referenced);
}

// Several callers may wait at once, each with its mark. Two counts are enough: the second caller's generation ends once
// the first one's references are gone.
bool PayloadReferences::any_before(uint64_t mark) {
  if (!any()) return false;
  const auto referenced = [this](uint64_t generation) { return rte_mbuf_ext_refcnt_read(&shared(generation)) > 1; };
  const bool older = referenced(generation_ + 1);  // the same count as generation_ - 1
  if (mark == generation_) {
    if (older) return true;
    ++generation_;
    return referenced(mark);
  }
  return mark + 1 == generation_ && older;
}

}  // namespace uroce::glue
