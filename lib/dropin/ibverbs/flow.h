// Receive rules of raw packet queue pairs (ibv_create_flow(3)).
#pragma once

#include "dropin/ibverbs/objects.h"

namespace uroce::dropin {

ibv_flow* create_flow(ibv_qp* qp, ibv_flow_attr* attr);
int destroy_flow(ibv_flow* flow);

}  // namespace uroce::dropin
