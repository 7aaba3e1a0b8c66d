// Completion queues through the operation tables (ibv_poll_cq(3), ibv_create_cq_ex(3), ibv_modify_cq(3)).
#pragma once

#include "dropin/ibverbs/objects.h"

namespace uroce::dropin {

int poll_cq(ibv_cq* cq, int entries, ibv_wc* wc);
int req_notify_cq(ibv_cq* cq, int solicited_only);
ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* attr);
int modify_cq(ibv_cq* cq, ibv_modify_cq_attr* attr);

/// Creates a completion queue of either kind; null with errno. Without `locked` only one thread at a time may use it.
VerbsCq* make_cq(ibv_context* context, int entries, void* cq_context, ibv_comp_channel* channel, int vector,
                 bool locked);
/// The calls of struct ibv_cq_ex.
void fill_poll_operations(ibv_cq_ex& cq);
/// Drops the completions of a queue pair that was reset, as providers of rdma-core do: applications take completions
/// that come afterwards for those of work that they post anew.
void forget(ibv_cq* cq, uint32_t qpn);
/// Polls the API's queue where no completion is left from the last poll. False where there is none. The caller holds
/// the queue's lock.
bool refill(VerbsCq& cq);

}  // namespace uroce::dropin
