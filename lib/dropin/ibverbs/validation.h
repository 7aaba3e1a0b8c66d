// UROCE_VALIDATE: the program's calls are told to a validate::Validator, which finds undefined behaviour. The findings
// are told with the place of the program's call.
//
// Without the variable the functions below do nothing, and queues have their ordinary calls. With it, contexts, queue
// pairs, work queues and extended completion queues get those of validated_calls.h.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

#include "dropin/ibverbs/buried.h"

namespace uroce::dropin {

struct VerbsAh;
struct VerbsCq;
struct VerbsMr;
struct VerbsQp;
struct VerbsSrq;
struct VerbsWq;

namespace validation {

/// Reads UROCE_VALIDATE, before the first device is opened.
void begin();

/// An object has begun. It is complete, but for its tables of calls.
void made(const VerbsCq& cq, bool may_overrun, bool one_thread);
/// `cq` is an XRC queue's.
void made(const VerbsSrq& srq, const VerbsCq* cq);
void made(const VerbsQp& qp);
void made(const VerbsWq& wq);
/// The queue pair was made with these send_ops_flags.
void declared(const VerbsQp& qp, uint64_t operations);

/// An object ends.
void gone(const VerbsCq& cq);
void gone(const VerbsSrq& srq);
void gone_queue_pair(const void* qp_or_wq);
void resized(const VerbsCq& cq);
/// A work queue was reset: its receives are gone.
void emptied(const VerbsWq& wq);

/// A region has these values now. `in_memory`: it has bytes of this process from `addr` on.
void registered(const VerbsMr& mr, bool in_memory = true);
/// Before the region is deregistered or changed by `call`.
void will_go(const VerbsMr& mr, const char* call);
void gone(const VerbsMr& mr);
/// Before an address handle is destroyed.
void will_go(const VerbsAh& ah);

/// ibv_modify_qp() comes, with the mask that Linux looks at.
void will_modify(const VerbsQp& qp, const ibv_qp_attr& attr, int mask);
/// ibv_modify_qp() has set these.
void changed(const VerbsQp& qp, const ibv_qp_attr& attr, int mask);
/// ibv_qp::state was set.
void changed(const VerbsQp& qp);

/// A call was made with an object that does not exist.
void dead(const char* kind, const void* object);
/// `call` cannot destroy an object that others use: EBUSY, also in errno.
int busy(const char* call);
/// Destroying `what` ("completion queue") has waited for acknowledgements for a while.
void waits_for_acks(const char* what, uint32_t acknowledged, uint32_t delivered);
/// Tells where more events of `what` are acknowledged than were got.
void check_acks(const char* what, uint32_t acknowledged, const uint32_t& delivered);

}  // namespace validation
}  // namespace uroce::dropin
