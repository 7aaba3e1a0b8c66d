// The objects of rdma_cm. Each begins with the structure of <rdma/rdma_cma.h> that applications hold a pointer to.
#pragma once

#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include <uroce/cm.h>

#include "dropin/common/report.h"
#include "dropin/rdmacm/devices.h"
#include "message/pipe_wait.h"

namespace uroce::dropin::rdmacm {

struct Id;

struct EventChannelState;
struct Multicast;

/// A delivered event and its objects.
struct Delivery {
  CmEvent event;
  Id* id;            ///< of a connect_request, the listener
  Id* request;       ///< of a connect_request, the new id
  Multicast* group;  ///< of a multicast event
};

/// The process's use of the daemon's connection manager, with the ids created over it. When the daemon goes, the
/// existing ids stay until the application destroys them; later ids belong to a new CmClient.
class CmClient {
 public:
  explicit CmClient(ConnectionManager opened) : api(std::move(opened)) {}

  /// Errors: ENODEV (no daemon), and those of ConnectionManager::open().
  static Result<std::shared_ptr<CmClient>> get();
  /// Connects anew; the daemon of `stale` has gone.
  static Result<std::shared_ptr<CmClient>> renew(const std::shared_ptr<CmClient>& stale);

  /// The results of take().
  enum class Found { event, none, ended, destroyed };
  /// Takes the channel's next event and counts it as delivered to its id. `ended`: the daemon has gone, and each id has
  /// had its RDMA_CM_EVENT_DEVICE_REMOVAL; the channel's descriptor is not readable any more, as with Linux's when the
  /// devices have gone. `destroyed`: the channel was destroyed. Any thread.
  Found take(EventChannelState& channel, std::optional<Delivery>& out);

  ConnectionManager api;
  OpenDevices devices;
  std::mutex mutex;  ///< guards `ids`, and the members of ids that say so
  std::condition_variable acknowledged;
  std::unordered_map<uint32_t, Id*> ids;  ///< by CmId::number(); ids leave the map before they are destroyed

 private:
  /// Finds the event's id, and creates the new id of a connect request. False when the id was destroyed.
  bool assign(Delivery& delivery);
};

/// The state of an event channel. Threads in rdma_get_cm_event() share it, because programs destroy a channel while a
/// thread waits on it, and then exit.
struct EventChannelState {
  explicit EventChannelState(std::shared_ptr<CmClient> over, CmChannel made, int outer)
      : client(std::move(over)), api(std::move(made)), fd(outer) {}

  const std::shared_ptr<CmClient> client;
  std::optional<CmChannel> api;  ///< guarded by the client's mutex; empty once the channel is destroyed
  const int fd;
  message::PipeWait pipe_wait;
};

/// `fd` is an epoll descriptor over the API's, so that the application can set O_NONBLOCK on it.
struct EventChannel : rdma_event_channel {
  explicit EventChannel(std::shared_ptr<EventChannelState> of) : rdma_event_channel{of->fd}, state(std::move(of)) {}
  EventChannel(const EventChannel&) = delete;
  EventChannel& operator=(const EventChannel&) = delete;
  ~EventChannel();

  const std::shared_ptr<EventChannelState> state;
};

inline EventChannel* of(rdma_event_channel* channel) { return static_cast<EventChannel*>(channel); }

/// Counts of delivered and acknowledged events; guarded by the client's mutex.
struct EventCount {
  uint64_t delivered = 0;
  uint64_t acknowledged = 0;
};

/// A multicast group that an id has joined or is joining.
struct Multicast {
  sockaddr_storage address{};
  CmAddress group;
  void* context = nullptr;
  bool send_only = false;
  bool attached = false;
  ibv_gid mgid{};
  EventCount events;
};

struct FreeInfo {
  void operator()(rdma_addrinfo* info) const { rdma_freeaddrinfo(info); }
};

struct Id : rdma_cm_id {
  Id(EventChannel* owner, CmId made, void* application, uint32_t space, uint32_t type);
  Id(const Id&) = delete;
  Id& operator=(const Id&) = delete;
  ~Id();

  EventChannel* channel_of() const { return of(channel); }
  bool is_datagram() const { return qp_type == IBV_QPT_UD; }
  /// Fills in the id's addresses and device from the daemon, and with `path` its path record. Errors: those of
  /// OpenDevices::use().
  Result<void> refresh(bool path);

  std::shared_ptr<CmClient> client;
  CmId api;
  OpenDevice* device = nullptr;
  bool sync = false;  ///< synchronous: it has a channel of its own, and calls wait for their event
  bool connect_error = false;
  sa_family_t family = AF_UNSPEC;  ///< of its addresses, once bound or resolved
  uint8_t initiator_depth = 0;
  uint8_t responder_resources = 0;
  // Enhanced connection establishment of a program that brings its own queue pair.
  ibv_ece local_ece{};
  ibv_ece remote_ece{};
  std::vector<std::byte> connect_data;  ///< ai_connect of rdma_addrinfo; precedes the private data of rdma_connect()
  std::optional<ibv_qp_init_attr> request_qp;  ///< rdma_get_request() creates such queue pairs
  std::optional<ibv_sa_path_rec> path;         ///< route.path_rec points here

  // Guarded by the client's mutex.
  EventCount events;
  bool resolving_info = false;  ///< rdma_resolve_addrinfo() is under way, or its result was not queried
  std::unique_ptr<rdma_addrinfo, FreeInfo> resolved_info;
  std::map<uint64_t, std::unique_ptr<Multicast>> groups;  ///< by token
};

inline Id* of(rdma_cm_id* id) { return static_cast<Id*>(id); }

struct Event : rdma_cm_event {
  Event() : rdma_cm_event{} {}
  Id* owner = nullptr;  ///< the id that counts it
  Multicast* group = nullptr;
  std::array<std::byte, 256> private_data{};
};

/// Creates a channel, over a new CmClient when the daemon of the current one has gone. Null with errno.
std::unique_ptr<EventChannel> make_channel();
/// rdma_create_id() for any kind of queue pair: the numbers of an rdma_port_space and an ibv_qp_type. Null with errno.
Id* make_id(rdma_event_channel* channel, void* context, uint32_t space, uint32_t type);
/// Synchronous ids: takes the event that completes the current call, and returns its status. Other ids: returns 0.
int complete(Id& id);
/// Waits until all delivered events of `count` are acknowledged.
void wait_for_acks(CmClient& client, const EventCount& count);

/// ibv_modify_qp(). 0, or -1 with errno.
int modify(ibv_qp* qp, ibv_qp_attr& attr, int mask);
/// Moves the id's queue pair, if it has one, to ERROR. 0, or -1 with errno.
int to_error(Id& id);

}  // namespace uroce::dropin::rdmacm
