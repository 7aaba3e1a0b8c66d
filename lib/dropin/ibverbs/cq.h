// Completion queues through the operation tables (ibv_poll_cq(3), ibv_create_cq_ex(3), ibv_modify_cq(3)).
#pragma once

#include "base/datagram_flags.h"
#include "dropin/ibverbs/objects.h"

namespace uroce::dropin {

int poll_cq(ibv_cq* cq, int entries, ibv_wc* wc);
int req_notify_cq(ibv_cq* cq, int solicited_only);
ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* attr);
int modify_cq(ibv_cq* cq, ibv_modify_cq_attr* attr);

/// A completion queue of either kind, as a program asks for it.
struct CqInit {
  int entries;
  void* of_program;
  ibv_comp_channel* channel;
  int vector;
  bool locked = true;  ///< without it only one thread at a time may use the queue
  bool ignore_overrun = false;
  VerbsPd* parent_domain = nullptr;  ///< of an extended queue, whose memory its allocators give
};
/// Null with errno.
VerbsCq* make_cq(ibv_context* context, const CqInit& init);
/// The calls of struct ibv_cq_ex.
void fill_poll_operations(ibv_cq_ex& cq);
/// struct ibv_wc::wc_flags, without the API's own flags.
inline unsigned wc_flags(const Completion& completion) {
  return completion.flags.bits() & ~static_cast<unsigned>(kFromIpv4);
}
/// struct ibv_wc::sl. RoCE has no service level; a datagram has its packet's kind here, as with mlx5: 8 for a packet of
/// UDP, and 1 for IPv6 or 2 for IPv4. UCX looks there for the address to compare.
inline uint8_t wc_sl(const Completion& completion) {
  if (!completion.flags.has(WcFlag::grh)) return 0;
  return completion.flags.has(kFromIpv4) ? 8 + 2 : 8 + 1;
}
/// Drops the completions of a queue pair that was reset or destroyed, as providers of rdma-core do: applications take
/// completions that come afterwards for those of work that they post anew, and look into what they have freed.
void forget(ibv_cq* cq, uint32_t qpn);
/// The same for both queues, each of which may be null.
void forget(ibv_cq* send, ibv_cq* recv, uint32_t qpn);
/// Polls the API's queue where no completion is left from the last poll. False where there is none. The caller holds
/// the queue's lock.
bool refill(VerbsCq& cq);

}  // namespace uroce::dropin
