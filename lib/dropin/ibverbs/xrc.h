// XRC domains, their shared receive queues and target queue pairs (ibv_open_xrcd(3), ibv_open_qp(3)).
#pragma once

#include "dropin/ibverbs/objects.h"

namespace uroce::dropin {

ibv_xrcd* open_xrcd(ibv_context* context, ibv_xrcd_init_attr* attr);
int close_xrcd(ibv_xrcd* xrcd);
/// Of ibv_create_srq_ex(), for IBV_SRQT_XRC.
ibv_srq* create_xrc_srq(ibv_srq_init_attr_ex& attr);
/// Of ibv_create_qp_ex(), for IBV_QPT_XRC_RECV.
ibv_qp* create_xrc_target(ibv_qp_init_attr_ex& attr);
ibv_qp* open_qp(ibv_context* context, ibv_qp_open_attr* attr);

}  // namespace uroce::dropin
