// Thread and parent domains (ibv_alloc_td(3), ibv_alloc_parent_domain(3)), and regions of device memory and of none
// (ibv_alloc_dm(3), ibv_alloc_null_mr(3)).
#pragma once

#include "dropin/ibverbs/objects.h"

namespace uroce::dropin {

ibv_mr* reg_dm_mr(ibv_pd* pd, ibv_dm* dm, uint64_t offset, std::size_t length, unsigned access);
ibv_mr* alloc_null_mr(ibv_pd* pd);
ibv_td* alloc_td(ibv_context* context, ibv_td_init_attr* attr);
int dealloc_td(ibv_td* td);
ibv_pd* alloc_parent_domain(ibv_context* context, ibv_parent_domain_init_attr* attr);

}  // namespace uroce::dropin
