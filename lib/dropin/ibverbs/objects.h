// The objects that applications hold pointers to. Each begins with the structure of <infiniband/verbs.h>, which the
// header's inline functions reach into, and holds the API's object behind it.
#pragma once

#include <infiniband/verbs.h>
#include <unistd.h>

#include <memory>
#include <optional>
#include <set>
#include <vector>

#include <uroce/verbs/context.h>

#include "dropin/common/report.h"
#include "dropin/ibverbs/api.h"
#include "dropin/ibverbs/later_verbs.h"
#include "dropin/ibverbs/poll_backoff.h"
#include "dropin/ibverbs/raised_events.h"
#include "dropin/ibverbs/spinlock.h"
#include "dropin/ibverbs/verbs_pd.h"
#include "dropin/ibverbs/wr_list.h"

namespace uroce::dropin {

struct VerbsMr : ibv_mr {
  VerbsMr(VerbsPd* domain, MemoryRegion made)
      : ibv_mr{}, ref(domain->context), api(std::move(made)), of_pd(std::in_place, &domain->users) {
    context = domain->context;
    pd = domain;
    handle = ref->shared->next_handle++;
    lkey = api.lkey();
    rkey = api.rkey();
    live.begin(ObjectKind::mr, this, handle, context);
  }
  ContextRef ref;
  MemoryRegion api;
  std::optional<UseOf> of_pd;
  std::optional<UseOf> of_dm;                ///< a region of device memory
  unsigned access = 0;                       ///< as asked for; with IBV_ACCESS_ON_DEMAND in SharedContext::on_demand
  uint64_t base = 0;                         ///< first address in work requests
  std::shared_ptr<ImplicitRegion> implicit;  ///< an implicit region
  Live live;
};

/// `fd` is an epoll descriptor over the API's: its O_NONBLOCK is the application's, and reading it by mistake takes no
/// event.
struct VerbsChannel : ibv_comp_channel {
  VerbsChannel(ibv_context* owner, CompletionChannel made, int outer)
      : ibv_comp_channel{}, ref(owner), api(std::move(made)), raised(outer) {
    context = owner;
    fd = outer;
    live.begin(ObjectKind::channel, this, 0, context);
  }
  ~VerbsChannel();
  ContextRef ref;
  CompletionChannel api;
  RaisedEvents raised;
  Live live;
};

inline VerbsChannel* of(ibv_comp_channel* channel) { return static_cast<VerbsChannel*>(channel); }

struct VerbsCq : ibv_cq_ex {
  using Public = ibv_cq_ex;
  static constexpr ObjectMemory kMemory = ObjectMemory::cq;
  /// `domain` is a parent domain or null.
  VerbsCq(ibv_context* owner, CompletionQueue made, bool locked, VerbsPd* domain)
      : ibv_cq_ex{},
        ref(owner),
        api(std::move(made)),
        lock(locked),
        of_pd(domain != nullptr ? &domain->users : nullptr) {}
  ContextRef ref;
  CompletionQueue api;
  Spinlock lock;
  UseOf of_pd;
  Placement placement;
  const pid_t maker = getpid();
  uint32_t capacity = 0;          ///< entries that the API's queue has at least
  std::vector<Completion> taken;  ///< polled from the API; [next, taken.size()) not yet returned
  std::size_t next = 0;
  uint64_t returned = 0;  ///< completions that the program has taken
  uint64_t reported = 0;  ///< completions, of all that come, that have had an event each, or will from the engine
  PollBackoff backoff;
  Completion current{};  ///< the completion that the read_* calls read
  Users users;
  uint32_t completions_delivered = 0;
  uint32_t events_delivered = 0;
  Live live;
};

inline VerbsCq* of(ibv_cq_ex* cq) { return static_cast<VerbsCq*>(cq); }
inline VerbsCq* of(ibv_cq* cq) { return of(reinterpret_cast<ibv_cq_ex*>(cq)); }

struct VerbsXrcd : ibv_xrcd {
  VerbsXrcd(ibv_context* owner, XrcDomain made) : ibv_xrcd{}, ref(owner), api(std::move(made)) {
    context = owner;
    live.begin(ObjectKind::xrcd, this, 0, context);
  }
  ContextRef ref;
  XrcDomain api;
  Users users;
  Live live;
};

inline VerbsXrcd* of(ibv_xrcd* xrcd) { return static_cast<VerbsXrcd*>(xrcd); }

/// The users of `object`; null where there is no object.
template <class T>
const Users* users_of(const T* object) {
  return object != nullptr ? &object->users : nullptr;
}

struct VerbsSrq : ibv_srq {
  using Public = ibv_srq;
  static constexpr ObjectMemory kMemory = ObjectMemory::srq;
  /// The parts of a queue. Only an XRC queue has a domain of its own and a completion queue.
  struct Parts {
    VerbsPd* pd = nullptr;
    VerbsXrcd* xrcd = nullptr;
    VerbsCq* cq = nullptr;
  };
  VerbsSrq(const Parts& parts, SharedReceiveQueue made)
      : ibv_srq{},
        ref(parts.pd->context),
        api(std::move(made)),
        lock(parts.pd->shared_by_threads()),
        of_pd(&parts.pd->users),
        of_xrcd(users_of(parts.xrcd)),
        of_cq(users_of(parts.cq)) {}
  ContextRef ref;
  SharedReceiveQueue api;
  Spinlock lock;
  UseOf of_pd, of_xrcd, of_cq;
  Placement placement;
  Users users;
  uint32_t events_delivered = 0;
  ibv_srq_attr attr{};
  Live live;
};

inline VerbsSrq* of(ibv_srq* srq) { return static_cast<VerbsSrq*>(srq); }

struct VerbsQp : later::QpEx {
  using Public = later::QpEx;
  static constexpr ObjectMemory kMemory = ObjectMemory::qp;
  VerbsQp(VerbsPd* domain, QueuePair made, VerbsCq* send, VerbsCq* recv, VerbsSrq* shared)
      : later::QpEx{},
        ref(domain->context),
        api(std::move(made)),
        send_lock(domain->shared_by_threads()),
        recv_lock(domain->shared_by_threads()),
        of_pd(&domain->users),
        of_send(&send->users),
        of_recv(users_of(recv)),
        of_srq(users_of(shared)),
        of_xrcd(nullptr) {}
  /// An XRC target, which has nothing but its XRC domain.
  VerbsQp(VerbsXrcd& domain, QueuePair made)
      : later::QpEx{},
        ref(domain.context),
        api(std::move(made)),
        send_lock(true),
        recv_lock(true),
        of_pd(nullptr),
        of_send(nullptr),
        of_recv(nullptr),
        of_srq(nullptr),
        of_xrcd(&domain.users) {}
  ContextRef ref;
  QueuePair api;
  Spinlock send_lock;
  Spinlock recv_lock;
  UseOf of_pd, of_send, of_recv, of_srq, of_xrcd;
  Placement placement;
  Users flows;
  std::set<Gid> groups;  ///< multicast groups that it is attached to; guarded by SharedContext::mutex
  std::shared_ptr<const ReceiveScaling> rss;  ///< of an RSS queue pair (rss.h), which has no queues of its own
  bool signal_all = false;
  bool extended = false;  ///< made with send_ops_flags: ibv_wr_*() may be used
  struct Bind {
    ibv_mw* mw;
    uint32_t rkey;
  };
  WrList list;              ///< between ibv_wr_start() and ibv_wr_complete()
  std::vector<Bind> binds;  ///< of the list: the windows' rkeys once it is posted
  uint32_t events_delivered = 0;
  ibv_ece ece{};
  Live live;
};

inline VerbsQp* of(ibv_qp_ex* qp) { return static_cast<VerbsQp*>(qp); }
inline VerbsQp* of(ibv_qp* qp) { return of(reinterpret_cast<ibv_qp_ex*>(qp)); }

struct VerbsAh : ibv_ah {
  VerbsAh(VerbsPd* domain, AddressHandle made)
      : ibv_ah{}, ref(domain->context), api(std::move(made)), of_pd(&domain->users) {
    context = domain->context;
    pd = domain;
    handle = api.id();
    live.begin(ObjectKind::ah, this, handle, context);
  }
  ContextRef ref;
  AddressHandle api;
  UseOf of_pd;
  Live live;
};

inline VerbsAh* of(ibv_ah* ah) { return static_cast<VerbsAh*>(ah); }

/// Fills the tables through which the inline functions of verbs.h call.
void fill_operations(VerbsContext& context);

}  // namespace uroce::dropin
