#include "dropin/ibverbs/cq.h"

#include <endian.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <mutex>

#include "dropin/ibverbs/events.h"
#include "dropin/ibverbs/validated_calls.h"
#include "dropin/ibverbs/validation.h"

namespace uroce::dropin {

namespace {

constexpr std::size_t kPollBurst = 16;
// Smaller queues get this many entries, so that ibv_resize_cq() can grow them in place.
constexpr uint32_t kLeastCapacity = 64;

void convert(const Completion& from, ibv_wc& to) {
  to.wr_id = from.wr_id;
  to.status = static_cast<ibv_wc_status>(from.status);
  to.opcode = static_cast<ibv_wc_opcode>(from.opcode);
  to.vendor_err = from.vendor_error;
  to.byte_len = from.byte_len;
  // An rkey is a number in host order; immediate data are bytes as they come from the wire.
  if (from.flags.has(WcFlag::with_invalidate)) {
    to.invalidated_rkey = from.imm_or_key;
  } else {
    to.imm_data = htobe32(from.imm_or_key);
  }
  to.qp_num = from.qpn;
  to.src_qp = from.src_qpn;
  to.wc_flags = wc_flags(from);
  to.pkey_index = 0;
  to.slid = 0;
  to.sl = wc_sl(from);
  to.dlid_path_bits = 0;
}

int take(VerbsCq& cq, int entries, ibv_wc* wc) {
  const std::lock_guard guard(cq.lock);
  int count = 0;
  while (count < entries && cq.next < cq.taken.size()) convert(cq.taken[cq.next++], wc[count++]);
  std::array<Completion, kPollBurst> burst;
  while (count < entries) {
    const auto wanted = std::min<std::size_t>(kPollBurst, static_cast<std::size_t>(entries - count));
    const std::size_t got = cq.api.poll(std::span(burst).first(wanted));
    for (std::size_t i = 0; i < got; ++i) convert(burst[i], wc[count++]);
    if (got < wanted) break;
  }
  cq.returned += static_cast<uint64_t>(count);
  return count;
}

/// Forgets the completions of `taken` that the program has.
void drop_returned(VerbsCq& cq) {
  cq.taken.erase(cq.taken.begin(), cq.taken.begin() + static_cast<std::ptrdiff_t>(cq.next));
  cq.next = 0;
}

/// Adds to `taken` what the API's queue has, at most `most`. Returns how many.
std::size_t fetch(VerbsCq& cq, std::size_t most) {
  const std::size_t before = cq.taken.size();
  cq.taken.resize(before + most);
  const std::size_t got = cq.api.poll(std::span(cq.taken).subspan(before));
  cq.taken.resize(before + got);
  return got;
}

/// Adds all that the API's queue has.
void fetch_all(VerbsCq& cq) {
  while (fetch(cq, kPollBurst) == kPollBurst) continue;
}

/// Completions that the program has not taken, as far as `taken` has room for them.
std::size_t top_up(VerbsCq& cq) {
  drop_returned(cq);
  if (cq.taken.size() < kPollBurst) fetch(cq, kPollBurst - cq.taken.size());
  return cq.taken.size();
}

bool raise(VerbsCq& cq) {
  VerbsChannel& channel = *of(cq.channel);
  int waiting = 0;  // a byte for each event of the engines
  if (ioctl(channel.api.fd(), FIONREAD, &waiting) != 0) waiting = 0;
  return channel.raised.raise(cq.handle, static_cast<std::size_t>(waiting));
}

/// Raises an event where a completion waits that has had none. Each has one of its own: a program may take one
/// completion for each event. False also where a thread polls right now (this one may, between ibv_start_poll() and
/// ibv_end_poll()), and where a thread waits for the next completion's event.
bool raise_for_unreported(VerbsCq& cq) {
  const std::unique_lock guard(cq.lock, std::try_to_lock);
  if (!guard.owns_lock()) return false;
  const std::size_t waiting = top_up(cq);
  const uint64_t seen = cq.returned + waiting;
  // Those that the program has polled meanwhile need no event.
  cq.reported = std::max(cq.reported, cq.returned);
  const bool unreported = waiting != 0 && (seen > cq.reported || waiting >= kPollBurst);
  if (unreported && raise(cq)) {
    cq.reported = std::min(cq.reported + 1, seen);
    return true;
  }
  cq.reported = seen + 1;  // the next one's is the engine's
  return false;
}

/// After arming: raises the event of a completion that came just before, for which the engine raises none.
void raise_for_overtaken(VerbsCq& cq) {
  const std::unique_lock guard(cq.lock, std::try_to_lock);
  if (!guard.owns_lock()) return;
  const std::size_t waiting = top_up(cq);
  if (waiting == 0 || cq.returned + waiting < cq.reported) return;
  // One of the two raises the event: this, or the engine that finds the queue armed.
  if (cq.api.disarm() && !raise(cq)) (void)cq.api.arm();
}

}  // namespace

void forget(ibv_cq* ibcq, uint32_t qpn) {
  VerbsCq& cq = *of(ibcq);
  if (getpid() != cq.maker) return;  // a child of fork() does not have the rings
  const std::lock_guard guard(cq.lock);
  drop_returned(cq);
  fetch_all(cq);
  // The others keep the events that they have had, and the engine's for the next one stays due.
  const uint64_t seen = cq.returned + cq.taken.size();
  uint64_t reported = cq.returned + (cq.reported > seen ? cq.reported - seen : 0);
  for (uint64_t at = cq.returned; const Completion& completion : cq.taken) {
    if (at++ < cq.reported && completion.qpn != qpn) ++reported;
  }
  cq.reported = reported;
  std::erase_if(cq.taken, [qpn](const Completion& completion) { return completion.qpn == qpn; });
}

void forget(ibv_cq* send, ibv_cq* recv, uint32_t qpn) {
  if (send != nullptr) forget(send, qpn);
  if (recv != nullptr && recv != send) forget(recv, qpn);
}

bool refill(VerbsCq& cq) {
  if (cq.next < cq.taken.size()) return true;
  cq.taken.resize(kPollBurst);
  cq.taken.resize(cq.api.poll(cq.taken));
  cq.next = 0;
  return !cq.taken.empty();
}

int poll_cq(ibv_cq* cq, int entries, ibv_wc* wc) {
  int count = take(*of(cq), entries, wc);
  // Without the lock: it may yield the core.
  if (count == 0 && of(cq)->backoff.yielded_after_empty()) count = take(*of(cq), entries, wc);
  if (count != 0) of(cq)->backoff.found();
  return count;
}

// A completion that came while the queue was not armed has its event at once, as with mlx5: programs count on it. One
// that had its event gets no second one, although it may wait still: perftest arms before it polls, and takes each
// event for a completion. Requests for solicited ones alone are as in the specification, since nobody knows any more
// which of those that wait are solicited.
int req_notify_cq(ibv_cq* ibcq, int solicited_only) {
  VerbsCq& cq = *of(ibcq);
  const bool any = solicited_only == 0 && cq.channel != nullptr;
  if (any && raise_for_unreported(cq)) return 0;
  const auto armed = cq.api.arm(solicited_only != 0);
  if (!armed) return report(armed.error());
  if (any) raise_for_overtaken(cq);
  return 0;
}

int modify_cq(ibv_cq* cq, ibv_modify_cq_attr* attr) {
  if ((attr->attr_mask & ~uint32_t{IBV_CQ_ATTR_MODERATE}) != 0) return failed(EINVAL);
  if ((attr->attr_mask & IBV_CQ_ATTR_MODERATE) == 0) return 0;
  const auto moderated = of(cq)->api.moderate(attr->moderate.cq_count, attr->moderate.cq_period);
  return moderated ? 0 : report(moderated.error());
}

VerbsCq* make_cq(ibv_context* context, const CqInit& init) {
  ibv_comp_channel* const channel = init.channel;
  if (init.entries < 1 || init.vector < 0 || init.vector >= context->num_comp_vectors) {
    return refuse_null(EINVAL, "ibv_create_cq(): it needs 1 entry at least, and a comp_vector below num_comp_vectors");
  }
  if (channel != nullptr && check_live(channel, EINVAL) != 0) return nullptr;
  const auto asked = static_cast<uint32_t>(init.entries);
  const uint32_t capacity = std::max(asked, std::min(kLeastCapacity, of(context)->info().max_cqe));
  auto made = of(context)->api.create_cq(capacity, channel != nullptr ? &of(channel)->api : nullptr,
                                         {.ignore_overrun = init.ignore_overrun});
  if (!made) return report_null(made.error());
  auto* cq = make_in<VerbsCq>(init.parent_domain, context, std::move(*made), init.locked, init.parent_domain);
  if (cq == nullptr) return nullptr;
  cq->taken.reserve(kPollBurst);
  cq->context = context;
  cq->channel = channel;
  cq->cq_context = init.of_program;
  cq->handle = cq->api.id();
  cq->capacity = cq->api.entries();
  cq->cqe = init.entries;
  pthread_mutex_init(&cq->mutex, nullptr);
  pthread_cond_init(&cq->cond, nullptr);
  fill_poll_operations(*cq);
  validation::replace_operations(*cq);
  validation::made(*cq, init.ignore_overrun, !init.locked);
  if (channel != nullptr) {
    of(channel)->raised.add_queue();
    pthread_mutex_lock(&context->mutex);
    ++channel->refcnt;
    pthread_mutex_unlock(&context->mutex);
  }
  cq->live.begin(ObjectKind::cq, cq, cq->handle, cq->context);
  publish(context, &SharedContext::cqs, cq->handle, cq);
  return cq;
}

}  // namespace uroce::dropin

using namespace uroce;
using namespace uroce::dropin;

extern "C" {

ibv_cq* ibv_create_cq(ibv_context* context, int entries, void* cq_context, ibv_comp_channel* channel, int vector) {
  return reinterpret_cast<ibv_cq*>(make_cq(context, {entries, cq_context, channel, vector}));
}

int ibv_resize_cq(ibv_cq* ibcq, int entries) {
  if (const int error = check_live(ibcq, EINVAL); error != 0) return error;
  VerbsCq& cq = *of(ibcq);
  if (entries < 1 || entries > static_cast<int>(cq.ref->info().max_cqe)) return failed(EINVAL);
  const std::lock_guard guard(cq.lock);
  if (entries < cq.cqe) {
    // The engine first does what was posted before it is asked. The completions of that count, too.
    if (const auto asked_engine = cq.api.resize(cq.capacity); !asked_engine) return report(asked_engine.error());
    fetch_all(cq);
    if (cq.taken.size() - cq.next > static_cast<std::size_t>(entries)) return failed(EINVAL);
  }
  const auto asked = static_cast<uint32_t>(entries);
  if (asked > cq.capacity) {
    const auto resized = cq.api.resize(asked);
    if (!resized) return report(resized.error());
    cq.capacity = cq.api.entries();
  }
  cq.cqe = entries;
  validation::resized(cq);
  return 0;
}

int ibv_destroy_cq(ibv_cq* ibcq) {
  if (const int error = check_live(ibcq, ENOENT); error != 0) return error;
  VerbsCq* cq = of(ibcq);
  if (cq->users.any()) return validation::busy("ibv_destroy_cq()");
  validation::gone(*cq);
  withdraw(cq->context, &SharedContext::cqs, cq->handle);
  wait_for_acks("completion queue", cq->mutex, cq->cond, cq->comp_events_completed, cq->completions_delivered);
  wait_for_acks("completion queue", cq->mutex, cq->cond, cq->async_events_completed, cq->events_delivered);
  if (cq->channel != nullptr) {
    of(cq->channel)->raised.remove_queue(cq->handle);
    pthread_mutex_lock(&cq->context->mutex);
    --cq->channel->refcnt;
    pthread_mutex_unlock(&cq->context->mutex);
  }
  pthread_cond_destroy(&cq->cond);
  pthread_mutex_destroy(&cq->mutex);
  destroy(cq);
  return 0;
}

}  // extern "C"
