// Protection domains and memory regions (ibv_alloc_pd(3), ibv_reg_mr(3)).
#include "dropin/ibverbs/memory.h"

#include <bit>

#include "dropin/ibverbs/device_memory.h"
#include "dropin/ibverbs/events.h"
#include "dropin/ibverbs/later_verbs.h"
#include "dropin/ibverbs/on_demand.h"
#include "dropin/ibverbs/validation.h"
#include "dropin/ibverbs/window.h"

namespace uroce::dropin {

namespace {

// Later headers than rdma-core 44's have these. Registering refuses persistence, and says why.
constexpr unsigned kAccessFlushGlobal = 1u << 8;
constexpr unsigned kAccessFlushPersistent = 1u << 9;
constexpr unsigned kServedAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                                   IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED |
                                   IBV_ACCESS_HUGETLB | kAccessFlushGlobal | kAccessFlushPersistent;

/// Without the flags that are hints.
AccessFlags access_flags(unsigned access) {
  return AccessFlags::from_bits(access & (kServedAccess | IBV_ACCESS_RELAXED_ORDERING) & ~unsigned{IBV_ACCESS_HUGETLB});
}

struct Refusal {
  int code;
  const char* text;
};

/// Flags that promise something are refused.
std::optional<Refusal> refusal_of(unsigned access) {
  if ((access & IBV_ACCESS_ON_DEMAND) != 0) {
    return Refusal{EOPNOTSUPP, "IBV_ACCESS_ON_DEMAND is for ibv_reg_mr() and its like alone; leave it out"};
  }
  if ((access & ~(kServedAccess | IBV_ACCESS_OPTIONAL_RANGE)) != 0) {
    return Refusal{EINVAL, "the access of a memory region has unknown flags; leave them out"};
  }
  return std::nullopt;
}

ibv_mr* register_memory(ibv_pd* pd, void* address, std::size_t length, uint64_t iova, unsigned access) {
  if (const auto refusal = refusal_of(access)) return refuse_null(refusal->code, refusal->text);
  const AccessFlags flags = access_flags(access);
  if (check_live(pd, EINVAL) != 0) return nullptr;
  if (flags.has(Access::zero_based)) iova = 0;
  auto region = of(pd)->domain().register_memory(address, length, flags.without(Access::zero_based), iova);
  if (!region) return report_null(region.error());
  auto* mr = new VerbsMr(of(pd), std::move(*region));
  mr->addr = address;
  mr->length = length;
  mr->base = iova;
  mr->access = access;
  validation::registered(*mr);
  publish(pd->context, &SharedContext::mrs, mr->handle, mr);
  return mr;
}

ibv_mr* register_dmabuf(ibv_pd* pd, uint64_t offset, std::size_t length, uint64_t iova, int fd, unsigned access) {
  // Those of the kernel (UVERBS_METHOD_REG_DMABUF_MR), and FLUSH.
  constexpr unsigned kKnown = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                              IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_RELAXED_ORDERING | kAccessFlushGlobal;
  if ((access & ~kKnown) != 0) {
    return refuse_null(EINVAL, "ibv_reg_dmabuf_mr(): access has flags that are not for a dma-buf; leave them out");
  }
  if (check_live(pd, EINVAL) != 0) return nullptr;
  auto region = of(pd)->domain().register_dmabuf(fd, offset, length, iova, access_flags(access));
  if (!region) return report_null(region.error());
  auto* mr = new VerbsMr(of(pd), std::move(*region));
  mr->addr = std::bit_cast<void*>(offset);  // as libibverbs
  mr->length = length;
  mr->base = iova;
  mr->access = access;
  validation::registered(*mr, false);
  publish(pd->context, &SharedContext::mrs, mr->handle, mr);
  return mr;
}

/// Keys are resolved when work is posted, so peers cannot use an implicit region's.
ibv_mr* register_implicit(ibv_pd* pd, unsigned access) {
  constexpr unsigned kRemote =
      IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND;
  if ((access & kRemote) != 0)
    return report_null({EOPNOTSUPP,
                        "an implicit on-demand region is for local access alone; register the memory that "
                        "peers or windows use by its addresses"});
  ibv_mr* made = register_memory(pd, nullptr, 0, 0, access & ~unsigned{IBV_ACCESS_ON_DEMAND});
  if (made == nullptr) return nullptr;
  auto* mr = static_cast<VerbsMr*>(made);
  mr->length = SIZE_MAX;
  mr->implicit = std::make_shared<ImplicitRegion>(
      of(pd)->domain(), access_flags(access & ~unsigned{IBV_ACCESS_ON_DEMAND}).without(Access::zero_based));
  of(pd->context)->shared->has_implicit = true;
  validation::registered(*mr);
  return mr;
}

ibv_mr* register_on_demand(ibv_pd* pd, void* address, std::size_t length, uint64_t iova, unsigned access) {
  ibv_mr* made = is_implicit(address, length, access)
                     ? register_implicit(pd, access)
                     : register_memory(pd, address, length, iova, access & ~unsigned{IBV_ACCESS_ON_DEMAND});
  if (made == nullptr) return nullptr;
  auto* mr = static_cast<VerbsMr*>(made);
  mr->access = access;
  publish(pd->context, &SharedContext::on_demand, mr->lkey, mr);
  return mr;
}

ibv_mr* register_either(ibv_pd* pd, void* address, std::size_t length, uint64_t iova, unsigned access) {
  const bool on_demand = (access & IBV_ACCESS_ON_DEMAND) != 0;
  return (on_demand ? register_on_demand : register_memory)(pd, address, length, iova, access);
}

/// 0, or the errno value for wrong arguments of ibv_rereg_mr().
int check_rereg(int flags, const ibv_pd* pd, const void* address, std::size_t length, int access) {
  if ((flags & ~IBV_REREG_MR_FLAGS_SUPPORTED) != 0) return EINVAL;
  if ((flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0 && (length == 0 || address == nullptr)) return EINVAL;
  if ((flags & IBV_REREG_MR_CHANGE_PD) != 0 && pd == nullptr) return EINVAL;
  if (access != 0 && (flags & IBV_REREG_MR_CHANGE_ACCESS) == 0) return EINVAL;
  return 0;
}

}  // namespace

ibv_mr* reg_dm_mr(ibv_pd* pd, ibv_dm* dm, uint64_t offset, std::size_t length, unsigned access) {
  if (const auto refusal = refusal_of(access)) return refuse_null(refusal->code, refusal->text);
  const AccessFlags flags = access_flags(access);
  // Device memory has no address, so the kernel insists on the flag.
  if (!flags.has(Access::zero_based)) {
    return refuse_null(EINVAL, "ibv_reg_dm_mr(): device memory has no address; add IBV_ACCESS_ZERO_BASED");
  }
  if (check_all_live(EINVAL, pd, dm) != 0) return nullptr;
  auto region = of(pd)->domain().register_device_memory(of(dm)->memory(), offset, length, flags);
  if (!region) return report_null(region.error());
  auto* mr = new VerbsMr(of(pd), std::move(*region));
  mr->of_dm.emplace(&of(dm)->users);
  mr->length = length;
  mr->access = access;
  validation::registered(*mr, false);
  publish(pd->context, &SharedContext::mrs, mr->handle, mr);
  return mr;
}

ibv_mr* alloc_null_mr(ibv_pd* pd) {
  if (check_live(pd, EINVAL) != 0) return nullptr;
  auto region = of(pd)->domain().create_null_region();
  if (!region) return report_null(region.error());
  auto* mr = new VerbsMr(of(pd), std::move(*region));
  mr->length = SIZE_MAX;
  mr->access = IBV_ACCESS_LOCAL_WRITE;
  validation::registered(*mr, false);
  publish(pd->context, &SharedContext::mrs, mr->handle, mr);
  return mr;
}

ibv_td* alloc_td(ibv_context* context, ibv_td_init_attr* attr) {
  if (attr->comp_mask != 0) return refuse_null(EINVAL, "ibv_alloc_td(): comp_mask has bits of no known attribute");
  return new VerbsTd(context);
}

int dealloc_td(ibv_td* td) {
  auto* thread = static_cast<VerbsTd*>(td);
  if (thread->users.any()) return failed(EBUSY);
  delete thread;
  return 0;
}

ibv_pd* alloc_parent_domain(ibv_context* /*context*/, ibv_parent_domain_init_attr* attr) {
  constexpr uint32_t kKnown =
      IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT | later::kAllowUnprotectedMemory;
  if (attr->pd == nullptr || (attr->comp_mask & ~kKnown) != 0) {
    return refuse_null(EINVAL, "ibv_alloc_parent_domain(): pd is missing, or comp_mask has bits of no known attribute");
  }
  if (check_live(attr->pd, EINVAL) != 0) return nullptr;
  Allocators given;
  if ((attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS) != 0) {
    given.alloc = attr->alloc;
    given.free = attr->free;
  }
  if ((attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT) != 0) given.context = attr->pd_context;
  return new VerbsPd(of(attr->pd), static_cast<VerbsTd*>(attr->td), given);
}

}  // namespace uroce::dropin

using namespace uroce;
using namespace uroce::dropin;

extern "C" {

ibv_pd* ibv_alloc_pd(ibv_context* context) {
  auto pd = of(context)->api.create_pd();
  if (!pd) return report_null(pd.error());
  auto* made = new VerbsPd(context, std::move(*pd));
  publish(context, &SharedContext::pds, made->handle, made);
  return made;
}

int ibv_dealloc_pd(ibv_pd* pd) {
  if (const int error = check_live(pd, ENOENT); error != 0) return error;
  if (of(pd)->users.any()) return validation::busy("ibv_dealloc_pd()");
  if (of(pd)->parent == nullptr) withdraw(pd->context, &SharedContext::pds, pd->handle);
  delete of(pd);
  return 0;
}

ibv_pd* ibv_import_pd(ibv_context* context, uint32_t handle) {
  SharedContext& shared = *of(context)->shared;
  const std::lock_guard lock(shared.mutex);
  const auto found = shared.pds.find(handle);
  if (found == shared.pds.end()) return refuse_null(EINVAL, "ibv_import_pd(): there is no domain of this handle");
  return new VerbsPd(context, found->second);
}

void ibv_unimport_pd(ibv_pd* pd) { delete of(pd); }

#undef ibv_reg_mr
ibv_mr* ibv_reg_mr(ibv_pd* pd, void* address, std::size_t length, int access) {
  return register_either(pd, address, length, reinterpret_cast<uint64_t>(address), static_cast<unsigned>(access));
}

#undef ibv_reg_mr_iova
ibv_mr* ibv_reg_mr_iova(ibv_pd* pd, void* address, std::size_t length, uint64_t iova, int access) {
  return register_either(pd, address, length, iova, static_cast<unsigned>(access));
}

ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* address, std::size_t length, uint64_t iova, unsigned access) {
  return register_either(pd, address, length, iova, access);
}

ibv_mr* ibv_reg_dmabuf_mr(ibv_pd* pd, uint64_t offset, std::size_t length, uint64_t iova, int fd, int access) {
  // UCX, libfabric and NCCL ask with a descriptor that cannot be one whether a device has the call.
  if (fd < 0) return refuse_probe(EBADF, "ibv_reg_dmabuf_mr(): the descriptor is negative");
  return register_dmabuf(pd, offset, length, iova, fd, static_cast<unsigned>(access));
}

int ibv_rereg_mr(ibv_mr* mr, int flags, ibv_pd* pd, void* address, std::size_t length, int access) {
  if (const int error = check_rereg(flags, pd, address, length, access); error != 0) {
    errno = error;
    return IBV_REREG_MR_ERR_INPUT;
  }
  // From here on the device refuses, as the kernel's would: ibv_rereg_mr(3) has another result for that.
  int error = check_live(mr, EINVAL);
  if (error == 0 && (flags & IBV_REREG_MR_CHANGE_PD) != 0) error = check_live(pd, EINVAL);
  if (error == 0 && static_cast<VerbsMr*>(mr)->implicit != nullptr) {
    error = refuse(EOPNOTSUPP, "ibv_rereg_mr(): an implicit on-demand region stays as it is; register another");
  }
  if (error != 0) return IBV_REREG_MR_ERR_CMD;
  if (const auto refusal = refusal_of(static_cast<unsigned>(access))) {
    refuse(refusal->code, refusal->text);
    return IBV_REREG_MR_ERR_CMD;
  }
  const AccessFlags wanted = access_flags(static_cast<unsigned>(access));
  const bool moved = (flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0;
  const bool given = (flags & IBV_REREG_MR_CHANGE_PD) != 0;
  auto* region = static_cast<VerbsMr*>(mr);
  validation::will_go(*region, "ibv_rereg_mr()");
  const auto changed = region->api.reregister(given ? &of(pd)->domain() : nullptr, moved ? address : nullptr, length,
                                              (flags & IBV_REREG_MR_CHANGE_ACCESS) != 0 ? &wanted : nullptr);
  if (!changed) {
    report(changed.error());
    return IBV_REREG_MR_ERR_CMD;
  }
  if (moved) {
    mr->addr = address;
    mr->length = length;
    region->base = wanted.has(Access::zero_based) ? 0 : reinterpret_cast<uint64_t>(address);
  }
  if ((flags & IBV_REREG_MR_CHANGE_ACCESS) != 0) {
    region->access = static_cast<unsigned>(access) | (region->access & IBV_ACCESS_ON_DEMAND);
  }
  if (given) {
    mr->pd = pd;
    region->of_pd.emplace(&of(pd)->users);
  }
  validation::gone(*region);
  mr->lkey = region->api.lkey();
  mr->rkey = region->api.rkey();
  validation::registered(*region);
  return 0;
}

int ibv_dereg_mr(ibv_mr* mr) {
  if (const int error = check_live(mr, ENOENT); error != 0) return error;
  if (const int error = check_unbound(*static_cast<VerbsMr*>(mr)); error != 0) return error;
  validation::will_go(*static_cast<VerbsMr*>(mr), "ibv_dereg_mr()");
  validation::gone(*static_cast<VerbsMr*>(mr));
  withdraw(mr->context, &SharedContext::mrs, mr->handle);
  if ((static_cast<VerbsMr*>(mr)->access & IBV_ACCESS_ON_DEMAND) != 0)
    withdraw(mr->context, &SharedContext::on_demand, mr->lkey);
  delete static_cast<VerbsMr*>(mr);
  return 0;
}

ibv_mr* ibv_import_mr(ibv_pd* pd, uint32_t handle) {
  SharedContext& shared = *of(pd->context)->shared;
  const std::lock_guard lock(shared.mutex);
  const auto found = shared.mrs.find(handle);
  if (found == shared.mrs.end()) return refuse_null(EINVAL, "ibv_import_mr(): there is no region of this handle");
  const VerbsMr& of_other = *found->second;
  // An imported region has neither address nor length (ibv_import_mr(3)).
  return new ibv_mr{pd->context, pd, nullptr, 0, handle, of_other.lkey, of_other.rkey};
}

void ibv_unimport_mr(ibv_mr* mr) { delete mr; }

}  // extern "C"
