// One use of the daemon's connection manager for the whole process.
#include <poll.h>
#include <unistd.h>

#include <cstdio>

#include "base/no_cancel.h"
#include "dropin/common/descriptor.h"
#include "dropin/rdmacm/objects.h"
#include "dropin/rdmacm/verbs_table.h"

namespace uroce::dropin::rdmacm {

namespace {

struct Current {
  std::mutex mutex;
  std::shared_ptr<CmClient> client;
};

Current& current() {
  static Current& one = *new Current;  // never destroyed: programs make calls until they exit
  return one;
}

Result<std::shared_ptr<CmClient>> open_client() {
  if (auto ok = check(verbs_table()); !ok) {
    const NoCancel guard;
    // On a mixed installation nothing works, so print this without UROCE_VERBOSE, too.
    std::fprintf(stderr, "uroce: %s\n", ok.error().text.c_str());
    return std::unexpected(ok.error());
  }
  auto opened = verbs_table().open_connection_manager();
  if (opened) return std::make_shared<CmClient>(std::move(*opened));
  Error error = std::move(opened.error());
  if (error.code == ENOENT) error.code = ENODEV;  // without a daemon there are no devices
  return std::unexpected(std::move(error));
}

}  // namespace

Result<std::shared_ptr<CmClient>> CmClient::get() {
  const std::lock_guard lock(current().mutex);
  if (current().client != nullptr) return current().client;
  auto opened = open_client();
  if (opened) current().client = *opened;
  return opened;
}

Result<std::shared_ptr<CmClient>> CmClient::renew(const std::shared_ptr<CmClient>& stale) {
  const std::lock_guard lock(current().mutex);
  if (current().client != stale) return current().client;
  auto opened = open_client();
  if (opened) current().client = *opened;
  return opened;
}

CmClient::Found CmClient::take(EventChannelState& channel, std::optional<Delivery>& out) {
  const NoCancel guard;
  const std::lock_guard lock(mutex);
  if (!channel.api) return Found::destroyed;
  while (auto event = channel.api->take()) {
    out = Delivery{std::move(*event), nullptr, nullptr, nullptr};
    if (!assign(*out)) continue;
    ++out->id->events.delivered;
    if (out->group != nullptr) ++out->group->events.delivered;
    return Found::event;
  }
  // POLLHUP without POLLIN: the daemon has gone and no event is left.
  pollfd inner{channel.api->fd(), POLLIN, 0};
  if (poll(&inner, 1, 0) != 1 || (inner.revents & POLLIN) != 0) return Found::none;
  // A program that takes events whenever the descriptor is readable would spin.
  quiet(channel.fd, inner.fd);
  return Found::ended;
}

bool CmClient::assign(Delivery& delivery) {
  const CmEvent& event = delivery.event;
  const bool request = event.type == CmEventType::connect_request;
  const auto found = ids.find(request ? event.listener : event.id);
  if (found != ids.end()) delivery.id = found->second;
  if (request) {
    auto adopted = api.adopt(event);
    if (!adopted || delivery.id == nullptr)
      return false;  // the listener is gone; dropping `adopted` rejects the request
    const Id& listener = *delivery.id;
    delivery.request =
        new Id(listener.channel_of(), std::move(*adopted), listener.context, listener.ps, listener.qp_type);
    // Still under the lock: another thread may take the new id's next event.
    ids.emplace(event.id, delivery.request);
  }
  if (event.join != 0 && delivery.id != nullptr) {
    const auto group = delivery.id->groups.find(event.join);
    if (group == delivery.id->groups.end()) return false;  // the id has left the group
    delivery.group = group->second.get();
  }
  return delivery.id != nullptr;
}

std::unique_ptr<EventChannel> make_channel() {
  auto client = CmClient::get();
  if (!client) return report_null(client.error());
  auto made = (*client)->api.create_channel();
  if (!made && made.error().code == EIO) {
    client = CmClient::renew(*client);
    if (!client) return report_null(client.error());
    made = (*client)->api.create_channel();
  }
  if (!made) return report_null(made.error());
  const int outer = outer_descriptor(made->fd());
  if (outer < 0) return nullptr;
  return std::make_unique<EventChannel>(
      std::make_shared<EventChannelState>(std::move(*client), std::move(*made), outer));
}

EventChannel::~EventChannel() {
  const NoCancel guard;
  const std::lock_guard lock(state->client->mutex);
  close(fd);
  state->api.reset();
}

void wait_for_acks(CmClient& client, const EventCount& count) {
  const NoCancel guard;
  std::unique_lock lock(client.mutex);
  client.acknowledged.wait(lock, [&] { return count.acknowledged >= count.delivered; });
}

}  // namespace uroce::dropin::rdmacm

using namespace uroce::dropin;
using namespace uroce::dropin::rdmacm;

extern "C" {

rdma_event_channel* rdma_create_event_channel() { return make_channel().release(); }

void rdma_destroy_event_channel(rdma_event_channel* channel) { delete of(channel); }

ibv_context** rdma_get_devices(int* num_devices) {
  if (num_devices != nullptr) *num_devices = 0;
  auto client = CmClient::get();
  if (!client) return report_null(client.error());
  const auto devices = (*client)->devices.all();
  if (!devices) return report_null(devices.error());
  auto** list = static_cast<ibv_context**>(std::calloc(devices->size() + 1, sizeof(ibv_context*)));
  if (list == nullptr) return failed_null(ENOMEM);
  for (std::size_t i = 0; i < devices->size(); ++i) list[i] = (*devices)[i]->verbs;
  if (num_devices != nullptr) *num_devices = static_cast<int>(devices->size());
  return list;
}

void rdma_free_devices(ibv_context** list) { std::free(list); }

}  // extern "C"
