// Receive work queues (ibv_create_wq(3)).
#pragma once

#include "dropin/ibverbs/verbs_wq.h"

namespace uroce::dropin {

ibv_wq* create_wq(ibv_context* context, ibv_wq_init_attr* attr);
int modify_wq(ibv_wq* wq, ibv_wq_attr* attr);
int destroy_wq(ibv_wq* wq);

}  // namespace uroce::dropin
