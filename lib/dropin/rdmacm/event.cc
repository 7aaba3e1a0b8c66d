// Taking events and applying their side effects (rdma_get_cm_event(3), rdma_ack_cm_event(3)).
#include <poll.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "dropin/common/descriptor.h"
#include "dropin/common/foreign_enum.h"
#include "dropin/common/qp_attr.h"
#include "dropin/rdmacm/later_cm.h"
#include "dropin/rdmacm/objects.h"
#include "dropin/rdmacm/verbs_table.h"

namespace uroce::dropin::rdmacm {

namespace {

/// Whether the application gets an event after its side effects were applied.
enum class Fate { deliver, discard };

void copy_private_data(const CmParam& from, Event& event, const void*& data, uint8_t& length) {
  const std::size_t size = std::min<std::size_t>(from.private_data.size(), 255);
  length = static_cast<uint8_t>(size);
  if (size == 0) return;
  std::copy_n(from.private_data.begin(), size, event.private_data.begin());
  data = event.private_data.data();
}

void copy_connection(const CmParam& from, Event& event) {
  rdma_conn_param& to = event.param.conn;
  copy_private_data(from, event, to.private_data, to.private_data_len);
  to.responder_resources = from.responder_resources;
  to.initiator_depth = from.initiator_depth;
  to.flow_control = from.flow_control ? 1 : 0;
  to.retry_count = from.retry_count;
  to.rnr_retry_count = from.rnr_retry_count;
  to.srq = from.srq ? 1 : 0;
  to.qp_num = from.qpn;
}

void copy_datagram(const CmEvent& from, Event& event) {
  rdma_ud_param& to = event.param.ud;
  copy_private_data(from.param, event, to.private_data, to.private_data_len);
  convert(from.av, to.ah_attr);
  to.qp_num = from.param.qpn;
  to.qkey = from.param.qkey;
}

void fail_with(Event& event, rdma_cm_event_type type) {
  event.status = errno != 0 ? -errno : -EIO;
  event.event = type;
}

/// A peer's options for enhanced connection establishment; none where its device has none.
void note_ece(Id& id, const CmParam& from) {
  id.remote_ece = {.vendor_id = from.ece_vendor, .options = from.ece_options, .comp_mask = 0};
}

/// The new id of a request uses the listener's channel, or a channel of its own when the listener is synchronous.
Fate on_request(const Delivery& from, Event& event) {
  Id& made = *from.request;
  made.initiator_depth = from.event.param.initiator_depth;
  made.responder_resources = from.event.param.responder_resources;
  note_ece(made, from.event.param);
  event.listen_id = from.id;
  event.id = &made;
  const bool usable = (!from.id->sync || rdma_migrate_id(&made, nullptr) == 0) && made.refresh(true);
  if (usable) return Fate::deliver;
  rdma_destroy_id(&made);
  return Fate::discard;
}

void on_join(Id& id, Multicast& group, const CmEvent& from, Event& event) {
  std::memcpy(group.mgid.raw, from.av.dgid.bytes.data(), sizeof(group.mgid.raw));
  if (id.qp == nullptr || group.send_only) return;
  if (ibv_attach_mcast(id.qp, &group.mgid, 0) != 0) return fail_with(event, RDMA_CM_EVENT_MULTICAST_ERROR);
  group.attached = true;
}

Fate apply_side_effects(const Delivery& from, Event& event) {
  Id& id = *from.id;
  switch (number_of(event.event)) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
      if (!id.refresh(false)) fail_with(event, RDMA_CM_EVENT_ADDR_ERROR);
      return Fate::deliver;
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
      if (!id.refresh(true)) fail_with(event, RDMA_CM_EVENT_ROUTE_ERROR);
      return Fate::deliver;
    case RDMA_CM_EVENT_CONNECT_REQUEST: return on_request(from, event);
    case RDMA_CM_EVENT_CONNECT_RESPONSE: note_ece(id, from.event.param); return Fate::deliver;
    case RDMA_CM_EVENT_ESTABLISHED:
      if (id.qp != nullptr && id.qp->state < IBV_QPS_RTS) verbs_table().note_state(id.qp, IBV_QPS_RTS);
      return Fate::deliver;
    case RDMA_CM_EVENT_CONNECT_ERROR:
      id.connect_error = true;
      if (id.qp != nullptr) verbs_table().note_state(id.qp, IBV_QPS_ERR);
      return Fate::deliver;
    case RDMA_CM_EVENT_REJECTED:
      if (id.connect_error) return Fate::discard;  // already reported as CONNECT_ERROR
      to_error(id);
      return Fate::deliver;
    case RDMA_CM_EVENT_DISCONNECTED: return id.connect_error ? Fate::discard : Fate::deliver;
    case RDMA_CM_EVENT_MULTICAST_JOIN: on_join(id, *from.group, from.event, event); return Fate::deliver;
    default: return Fate::deliver;
  }
}

void acknowledge(Id& owner, Multicast* group) {
  CmClient& client = *owner.client;
  const std::lock_guard lock(client.mutex);
  ++owner.events.acknowledged;
  if (group != nullptr) ++group->events.acknowledged;
  // Notify under the lock: once it is released, the waiting thread may destroy the id and the client.
  client.acknowledged.notify_all();
}

std::unique_ptr<Event> to_event(const Delivery& from) {
  auto event = std::make_unique<Event>();
  event->owner = from.id;
  event->group = from.group;
  event->id = from.id;
  set_number(event->event, static_cast<uint32_t>(from.event.type));
  event->status = from.event.status;
  if (from.event.type == CmEventType::user) {
    std::memcpy(&event->param, &from.event.argument, sizeof(from.event.argument));
  } else if (from.group != nullptr || from.id->is_datagram()) {
    copy_datagram(from.event, *event);
  } else {
    copy_connection(from.event.param, *event);
  }
  if (from.group != nullptr) event->param.ud.private_data = from.group->context;
  return event;
}

/// Waits for an event as the write(2) of kernel verbs does. False when a signal ended the wait, which a handler with
/// SA_RESTART does not.
bool sleep(EventChannelState& channel) {
  int pipe = -1;
  {
    const std::lock_guard lock(channel.client->mutex);
    if (!channel.api) return true;
    pipe = channel.api->fd();
  }
  return channel.pipe_wait.sleep(pipe, std::chrono::nanoseconds::max()) != message::Wake::signal;
}

}  // namespace

int complete(Id& id) {
  if (!id.sync) return 0;
  if (id.event != nullptr) rdma_ack_cm_event(id.event);
  id.event = nullptr;
  if (rdma_get_cm_event(id.channel, &id.event) != 0) return -1;
  const int status = id.event->status;
  if (status == 0) return 0;
  if (number_of(id.event->event) == RDMA_CM_EVENT_REJECTED) return minus_one(ECONNREFUSED);
  return minus_one(std::abs(status));
}

}  // namespace uroce::dropin::rdmacm

using namespace uroce::dropin;
using namespace uroce::dropin::rdmacm;

extern "C" {

int rdma_get_cm_event(rdma_event_channel* channel, rdma_cm_event** event) {
  if (event == nullptr) return minus_one(EINVAL);
  const std::shared_ptr<EventChannelState> from = of(channel)->state;
  std::optional<Delivery> next;
  while (true) {
    switch (from->client->take(*from, next)) {
      case CmClient::Found::event:
        if (auto made = to_event(*next); apply_side_effects(*next, *made) == Fate::deliver) {
          *event = made.release();
          return 0;
        }
        acknowledge(*next->id, next->group);
        break;
      case CmClient::Found::none:
        if (non_blocking(from->fd)) return minus_one(EAGAIN);
        if (!sleep(*from)) return minus_one(EINTR);
        break;
      case CmClient::Found::ended: return minus_one(EIO);
      // A thread that waits on a destroyed channel sleeps for ever, as with the kernel's descriptor.
      case CmClient::Found::destroyed: poll(nullptr, 0, -1); break;
    }
  }
}

int rdma_ack_cm_event(rdma_cm_event* event) {
  if (event == nullptr) return minus_one(EINVAL);
  const std::unique_ptr<Event> acknowledged(static_cast<Event*>(event));
  acknowledge(*acknowledged->owner, acknowledged->group);
  return 0;
}

const char* rdma_event_str(rdma_cm_event_type event) {
  static constexpr std::array kNames = {
      "RDMA_CM_EVENT_ADDR_RESOLVED",  "RDMA_CM_EVENT_ADDR_ERROR",        "RDMA_CM_EVENT_ROUTE_RESOLVED",
      "RDMA_CM_EVENT_ROUTE_ERROR",    "RDMA_CM_EVENT_CONNECT_REQUEST",   "RDMA_CM_EVENT_CONNECT_RESPONSE",
      "RDMA_CM_EVENT_CONNECT_ERROR",  "RDMA_CM_EVENT_UNREACHABLE",       "RDMA_CM_EVENT_REJECTED",
      "RDMA_CM_EVENT_ESTABLISHED",    "RDMA_CM_EVENT_DISCONNECTED",      "RDMA_CM_EVENT_DEVICE_REMOVAL",
      "RDMA_CM_EVENT_MULTICAST_JOIN", "RDMA_CM_EVENT_MULTICAST_ERROR",   "RDMA_CM_EVENT_ADDR_CHANGE",
      "RDMA_CM_EVENT_TIMEWAIT_EXIT",  "RDMA_CM_EVENT_ADDRINFO_RESOLVED", "RDMA_CM_EVENT_ADDRINFO_ERROR",
      "RDMA_CM_EVENT_USER",
  };
  const auto index = static_cast<std::size_t>(event);
  return index < kNames.size() ? kNames[index] : "UNKNOWN EVENT";
}

}  // extern "C"
