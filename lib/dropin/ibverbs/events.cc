// Completion channels and asynchronous events (ibv_get_cq_event(3), ibv_get_async_event(3)).
#include "dropin/ibverbs/events.h"

#include <unistd.h>

#include <chrono>
#include <ctime>

#include "base/no_cancel.h"
#include "dropin/common/descriptor.h"
#include "dropin/common/foreign_enum.h"
#include "dropin/ibverbs/validation.h"
#include "dropin/ibverbs/verbs_wq.h"

namespace uroce::dropin {

namespace {

using namespace std::chrono_literals;

/// Another thread may acknowledge events a little late.
constexpr time_t kAckSeconds = 2;

/// The next event from `next(timeout)`. Waits without limit unless `at_once`, which the application's flags of the
/// descriptor say. nullopt with errno: EAGAIN, EINTR (as from read(2) on the descriptor of kernel verbs) or EIO (the
/// daemon is gone).
template <class Next>
auto next_event(Context& api, bool at_once, Next next) -> decltype(next(0ns)) {
  auto event = next(at_once ? 0ns : std::chrono::nanoseconds::max());
  if (!event) errno = api.lost() ? EIO : at_once ? EAGAIN : EINTR;
  return event;
}

/// As next_event(), of a channel: the engines' events, and those that were raised at once, in the order in which they
/// came.
std::optional<uint32_t> next_completion_event(VerbsChannel& channel) {
  Context& api = of(channel.context)->api;
  const auto next = [&](auto timeout) {
    const auto id = channel.api.wait(timeout);
    if (id) channel.raised.count_engines();
    return id;
  };
  if (channel.raised.is_behind()) {
    if (const auto older = next(0ns)) return older;
  }
  if (non_blocking(channel.fd)) {
    const auto raised = channel.raised.take();
    return raised ? raised : next_event(api, true, next);
  }
  const RaisedEvents::Waiting waiting(channel.raised);
  return waiting.first ? waiting.first : next_event(api, false, next);
}

VerbsCq* deliver_completion(SharedContext& shared, uint32_t id) {
  const std::lock_guard lock(shared.mutex);
  const auto found = shared.cqs.find(id);
  if (found == shared.cqs.end()) return nullptr;  // destroyed meanwhile
  ++found->second->completions_delivered;
  return found->second;
}

template <class Map>
auto deliver(Map& map, uint32_t id) -> typename Map::mapped_type {
  const auto found = map.find(id);
  if (found == map.end()) return nullptr;
  ++found->second->events_delivered;
  return found->second;
}

/// The event of a queue pair that is a WQ. WQs know but one event.
bool deliver_to_wq(SharedContext& shared, const AsyncEvent& event, ibv_async_event& out) {
  const bool fatal = event.type == AsyncEventType::qp_fatal || event.type == AsyncEventType::qp_access_error ||
                     event.type == AsyncEventType::qp_request_error;
  VerbsWq* wq = fatal ? deliver(shared.wqs, event.object) : nullptr;
  out.event_type = IBV_EVENT_WQ_FATAL;
  out.element.wq = wq;
  return wq != nullptr;
}

/// Sets `out` and returns true where the event's object still exists.
bool deliver_async(SharedContext& shared, const AsyncEvent& event, ibv_async_event& out) {
  const std::lock_guard lock(shared.mutex);
  out.event_type = static_cast<ibv_event_type>(event.type);
  switch (event.type) {
    case AsyncEventType::cq_error: {
      VerbsCq* cq = deliver(shared.cqs, event.object);
      out.element.cq = reinterpret_cast<ibv_cq*>(cq);
      return cq != nullptr;
    }
    case AsyncEventType::srq_error:
    case AsyncEventType::srq_limit_reached: {
      VerbsSrq* srq = deliver(shared.srqs, event.object);
      if (srq != nullptr) srq->attr.srq_limit = 0;  // it fires once (C10-98)
      out.element.srq = srq;
      return srq != nullptr;
    }
    case AsyncEventType::device_fatal:
    case AsyncEventType::port_active:
    case AsyncEventType::port_error:
    case AsyncEventType::gid_change:
      out.element.port_num = event.object != 0 ? static_cast<int>(event.object) : 1;
      return true;
    default: {
      VerbsQp* qp = deliver(shared.qps, event.object);
      if (qp == nullptr) return deliver_to_wq(shared, event, out);
      out.element.qp = &qp->qp_base;
      return true;
    }
  }
}

void acknowledge(const char* what, pthread_mutex_t& mutex, pthread_cond_t& cond, uint32_t& counter, uint32_t events,
                 const uint32_t& delivered) {
  pthread_mutex_lock(&mutex);
  counter += events;
  validation::check_acks(what, counter, delivered);
  pthread_cond_signal(&cond);
  pthread_mutex_unlock(&mutex);
}

/// Tells where no other thread acknowledges the events soon. The caller has the mutex, and waits on.
void tell_late_acks(const char* what, pthread_mutex_t& mutex, pthread_cond_t& cond, const uint32_t& acknowledged,
                    uint32_t delivered) {
  timespec until{};
  clock_gettime(CLOCK_REALTIME, &until);  // pthread_cond_timedwait(3) waits by it
  until.tv_sec += kAckSeconds;
  while (acknowledged != delivered) {
    if (pthread_cond_timedwait(&cond, &mutex, &until) == 0) continue;
    return validation::waits_for_acks(what, acknowledged, delivered);
  }
}

}  // namespace

void wait_for_acks(const char* what, pthread_mutex_t& mutex, pthread_cond_t& cond, const uint32_t& acknowledged,
                   uint32_t delivered) {
  const NoCancel guard;
  pthread_mutex_lock(&mutex);
  if (validation::on() && acknowledged != delivered) tell_late_acks(what, mutex, cond, acknowledged, delivered);
  while (acknowledged != delivered) pthread_cond_wait(&cond, &mutex);
  pthread_mutex_unlock(&mutex);
}

VerbsChannel::~VerbsChannel() {
  const NoCancel guard;
  close(fd);
}

}  // namespace uroce::dropin

using namespace uroce::dropin;

extern "C" {

ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
  auto channel = of(context)->api.create_channel();
  if (!channel) return report_null(channel.error());
  const int outer = outer_descriptor(channel->fd());
  if (outer < 0) return nullptr;
  return new VerbsChannel(context, std::move(*channel), outer);
}

int ibv_destroy_comp_channel(ibv_comp_channel* channel) {
  if (const int error = check_live(channel, EINVAL); error != 0) return error;
  pthread_mutex_t& mutex = channel->context->mutex;
  pthread_mutex_lock(&mutex);
  const bool used = channel->refcnt != 0;
  pthread_mutex_unlock(&mutex);
  if (used) return failed(EBUSY);
  delete of(channel);
  return 0;
}

int ibv_get_cq_event(ibv_comp_channel* channel, ibv_cq** cq, void** cq_context) {
  while (true) {
    const auto id = next_completion_event(*of(channel));
    if (!id) return -1;
    if (VerbsCq* found = deliver_completion(*of(channel->context)->shared, *id)) {
      *cq = reinterpret_cast<ibv_cq*>(found);
      *cq_context = found->cq_context;
      return 0;
    }
  }
}

void ibv_ack_cq_events(ibv_cq* cq, unsigned int nevents) {
  acknowledge("completion queue", cq->mutex, cq->cond, cq->comp_events_completed, nevents,
              of(cq)->completions_delivered);
}

int ibv_get_async_event(ibv_context* context, ibv_async_event* event) {
  SharedContext& opened = *of(context)->shared;
  while (true) {
    const auto next = next_event(opened.api, non_blocking(context->async_fd),
                                 [&](auto timeout) { return opened.api.next_async_event(timeout); });
    if (!next) return -1;
    if (deliver_async(opened, *next, *event)) return 0;
  }
}

void ibv_ack_async_event(ibv_async_event* event) {
  switch (number_of(event->event_type)) {
    case IBV_EVENT_CQ_ERR: {
      ibv_cq& cq = *event->element.cq;
      return acknowledge("completion queue", cq.mutex, cq.cond, cq.async_events_completed, 1,
                         of(&cq)->events_delivered);
    }
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED: {
      ibv_srq& srq = *event->element.srq;
      return acknowledge("shared receive queue", srq.mutex, srq.cond, srq.events_completed, 1,
                         of(&srq)->events_delivered);
    }
    case IBV_EVENT_WQ_FATAL: {
      ibv_wq& wq = *event->element.wq;
      return acknowledge("receive work queue", wq.mutex, wq.cond, wq.events_completed, 1, of(&wq)->events_delivered);
    }
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED: {
      ibv_qp& qp = *event->element.qp;
      return acknowledge("queue pair", qp.mutex, qp.cond, qp.events_completed, 1, of(&qp)->events_delivered);
    }
    default: return;
  }
}

}  // extern "C"
