// What rdma_cm's structures stand for. Each begins with the structure of <rdma/rdma_cma.h> that programs hold.
#pragma once

#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#include <array>
#include <condition_variable>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include <uroce/cm.h>

#include "dropin/common/report.h"
#include "dropin/rdmacm/devices.h"

namespace uroce::dropin::rdmacm {

struct Id;

struct EventChannelState;
struct Multicast;

/// An event handed out, and whose it is.
struct Delivery {
  CmEvent event;
  Id* id;            ///< of a connect_request, the listener
  Id* request;       ///< of a connect_request, the new id
  Multicast* group;  ///< of a multicast event
};

/// The process's connection to the daemon's connection manager, with the ids made over it. When the daemon goes, what
/// was made over it stays until the application destroys it; what is made later belongs to a new one.
class CmClient {
 public:
  explicit CmClient(ConnectionManager opened) : api(std::move(opened)) {}

  /// Errors: ENODEV (no daemon), and those of ConnectionManager::open().
  static Result<std::shared_ptr<CmClient>> get();
  /// The next one, when `stale` is of a daemon that has gone.
  static Result<std::shared_ptr<CmClient>> renew(const std::shared_ptr<CmClient>& stale);

  /// What a look for an event found.
  enum class Found { event, none, ended, destroyed };
  /// The channel's next event with the id that it is for, counted as handed out. `ended`: the daemon has gone, and each
  /// id was told so; `destroyed`: the channel was. Any thread.
  Found take(EventChannelState& channel, std::optional<Delivery>& out);

  ConnectionManager api;
  OpenDevices devices;
  std::mutex mutex;  ///< guards the map, and what the ids say is guarded by it
  std::condition_variable acknowledged;
  std::unordered_map<uint32_t, Id*> ids;  ///< by CmId::number(); an id in here is alive

 private:
  /// Finds whose the event is, and makes the id of a request. False when it is nobody's any more.
  bool assign(Delivery& delivery);
};

/// What a channel stands for. Threads that wait in rdma_get_cm_event() hold it as well: programs destroy the channel
/// below them, and end.
struct EventChannelState {
  explicit EventChannelState(std::shared_ptr<CmClient> over, CmChannel made, int outer)
      : client(std::move(over)), api(std::move(made)), fd(outer) {}

  const std::shared_ptr<CmClient> client;
  std::optional<CmChannel> api;  ///< guarded by the client's mutex; gone when the channel is destroyed
  const int fd;
};

/// `fd` is a descriptor over the API's: its flags are the application's.
struct EventChannel : rdma_event_channel {
  explicit EventChannel(std::shared_ptr<EventChannelState> of) : rdma_event_channel{of->fd}, state(std::move(of)) {}
  EventChannel(const EventChannel&) = delete;
  EventChannel& operator=(const EventChannel&) = delete;
  ~EventChannel();

  const std::shared_ptr<EventChannelState> state;
};

inline EventChannel* of(rdma_event_channel* channel) { return static_cast<EventChannel*>(channel); }

/// Events handed out and acknowledged; guarded by the client's mutex.
struct EventCount {
  uint64_t delivered = 0;
  uint64_t acknowledged = 0;
};

/// A group that an id has joined, or asked to.
struct Multicast {
  sockaddr_storage address{};
  CmAddress group;
  void* context = nullptr;
  bool send_only = false;
  bool attached = false;
  ibv_gid mgid{};
  EventCount events;
};

struct Id : rdma_cm_id {
  Id(EventChannel* owner, CmId made, void* application, rdma_port_space space, ibv_qp_type type);
  Id(const Id&) = delete;
  Id& operator=(const Id&) = delete;
  ~Id();

  EventChannel* channel_of() const { return of(channel); }
  bool is_datagram() const { return qp_type == IBV_QPT_UD; }
  /// Fills in what the daemon knows of it: addresses, device, and with `path` the path record. Errors: of
  /// OpenDevices::use().
  Result<void> refresh(bool path);

  std::shared_ptr<CmClient> client;
  CmId api;
  OpenDevice* device = nullptr;
  bool sync = false;  ///< it has its channel to itself, and calls wait for their event
  bool connect_error = false;
  sa_family_t family = AF_UNSPEC;  ///< of its addresses, once they are known
  uint8_t initiator_depth = 0;
  uint8_t responder_resources = 0;
  std::vector<std::byte> connect_data;         ///< of rdma_addrinfo, before what rdma_connect() brings
  std::optional<ibv_qp_init_attr> request_qp;  ///< rdma_get_request() makes such queue pairs
  std::optional<ibv_sa_path_rec> path;         ///< what route.path_rec points to

  // Guarded by the client's mutex.
  EventCount events;
  std::map<uint64_t, std::unique_ptr<Multicast>> groups;  ///< by token
};

inline Id* of(rdma_cm_id* id) { return static_cast<Id*>(id); }

struct Event : rdma_cm_event {
  Event() : rdma_cm_event{} {}
  Id* owner = nullptr;  ///< whose count it is on
  Multicast* group = nullptr;
  std::array<std::byte, 256> private_data{};
};

/// Makes a channel over `client`, or over a new one where that one's daemon has gone. Null with errno.
std::unique_ptr<EventChannel> make_channel();
/// rdma_create_id() for any kind of queue pair. Null with errno.
Id* make_id(rdma_event_channel* channel, void* context, rdma_port_space space, ibv_qp_type type);
/// Of an id whose calls wait: takes the event that ends one (its status is the call's). Others return at once.
int complete(Id& id);
/// Waits until what was handed out of `count` is acknowledged.
void wait_for_acks(CmClient& client, const EventCount& count);

/// Bring the queue pair of an id, where it has one, from INIT to RTS, or to error. 0, or -1 with errno.
int to_connected(Id& id, uint8_t responder_resources, uint8_t initiator_depth);
int to_error(Id& id);
/// Moves the queue pair to RTS and tells the peer that the connection stands.
int finish_connecting(Id& id);

}  // namespace uroce::dropin::rdmacm
