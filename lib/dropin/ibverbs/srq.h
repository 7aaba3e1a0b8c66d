// Shared receive queues through the operation tables (ibv_post_srq_recv(3), ibv_create_srq_ex(3)).
#pragma once

#include "dropin/ibverbs/objects.h"

namespace uroce::dropin {

int post_srq_recv(ibv_srq* srq, ibv_recv_wr* wr, ibv_recv_wr** bad);
/// Of ibv_create_srq_ex(), for all that are not XRC queues.
ibv_srq* create_basic_srq(ibv_context* context, ibv_srq_init_attr_ex* attr);
/// The application's object. `attr`: as asked; its sizes become those in force.
ibv_srq* publish_srq(SharedReceiveQueue made, const VerbsSrq::Parts& parts, void* of_program, ibv_srq_attr& attr);
int get_srq_num(ibv_srq* srq, uint32_t* number);

}  // namespace uroce::dropin
