// The inside of Manager, for the files that implement it. One lock guards everything.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/secret.h"
#include "cm/event_channel.h"
#include "cm/gsi.h"
#include "cm/ib/ib_cm.h"
#include "cm/manager.h"
#include "cm/resolving.h"
#include "control/event_pipe.h"

namespace uroce::cm {

struct CmAgent;

/// Default local ACK timeout of a connection, 4.096 us * 2^16 (268 ms), so long that a pause of a busy virtual machine
/// is not taken for a lost packet.
inline constexpr uint8_t kAckTimeout = 16;
/// The Q_Key of rdma_cm's datagrams and groups.
inline constexpr uint32_t kUdpQkey = 0x01234567;
inline constexpr std::size_t kMaxGroups = 64;  ///< per id
/// Events of an id that the program has not taken, beyond which calls that raise more fail: one for each group, and
/// again as many.
inline constexpr uint32_t kMaxUnreadOfId = 2 * kMaxGroups;
/// The same for all ids of a program, beyond which requests of peers are rejected as well. Two full backlogs fit.
inline constexpr uint32_t kMaxUnread = 32768;

/// One user's ids.
struct Owner {
  std::set<uint32_t> ids;
  std::shared_ptr<IdBudget> budget;
  uint32_t unread = 0;       // the sum of the ids' `unread`
  std::mutex queue_pairs{};  // held while one is connected, under the manager's lock, and while one is destroyed
  Result<void> reserve_id() const { return budget != nullptr ? budget->take() : Result<void>{}; }
  void remove(uint32_t id) {
    ids.erase(id);
    if (budget != nullptr) budget->give_back();
  }
};

/// The states of an rdma_cm id, as far as calls depend on them.
enum class IdState : uint8_t {
  idle,
  bound,
  resolving,  // rdma_resolve_addr under way
  addr_resolved,
  route_resolved,
  listening,
  connecting,  // REQ or SIDR_REQ sent
  replied,     // active: REP received, RTU not sent
  held,        // passive: as `requested`, while the peer's Ethernet address is not known
  requested,   // passive: REQ or SIDR_REQ received, not answered
  accepted,    // passive: REP sent
  connected,
  disconnecting,  // DREQ sent
  disconnected,   // also: rejected, or unreachable
};

/// An id's state. It counts the ids whose connection begins or ends at the moment.
class CountedState {
 public:
  explicit CountedState(std::size_t& changing) : changing_(changing) {}
  ~CountedState() { *this = IdState::idle; }
  CountedState(const CountedState&) = delete;
  CountedState& operator=(const CountedState&) = delete;
  CountedState& operator=(IdState state) {
    changing_ += is_changing(state) ? 1 : 0;
    changing_ -= is_changing(std::exchange(state_, state)) ? 1 : 0;
    return *this;
  }
  operator IdState() const { return state_; }  // NOLINT(google-explicit-constructor): it is one

 private:
  static bool is_changing(IdState state) {
    using enum IdState;
    return state == connecting || state == replied || state == requested || state == accepted || state == disconnecting;
  }

  std::size_t& changing_;
  IdState state_ = IdState::idle;
};

struct Id {
  explicit Id(std::size_t& changing) : state(changing) {}

  uint32_t number = 0;
  Owner* owner = nullptr;
  std::shared_ptr<EventChannel> channel;
  PortSpace space{};
  QpType type{};
  CountedState state;
  CmAddress local{}, remote{};
  bool holds_port = false;   // it is in `ports` under local.port
  CmAgent* agent = nullptr;  // its device; nullptr: not bound to one
  Gid sgid{}, dgid{};
  uint8_t type_of_service = 0;
  bool reuse_address = false;
  std::optional<bool> af_only{};
  std::optional<uint8_t> ack_timeout{};
  std::shared_ptr<Backlog> backlog{};  // of a listener
  std::shared_ptr<Backlog> holds{};    // of a listener: requests in state `held`, apart from its backlog
  uint32_t connection = 0;             // IbCm's id; 0: none
  uint32_t psn = 0;
  uint8_t responder_resources = 0, initiator_depth = 0;
  uint32_t listener = 0;          // states `held` and `requested`: the id that listens
  std::optional<CmEvent> held{};  // the event of a request in state `held`
  uint32_t unread = 0;            // its events that wait in the channel
  std::vector<CmAddress> groups{};
  std::weak_ptr<control::ControlQp> qp{};  // of connect_qp(), until the peer has answered
  std::optional<CmEvent> answer{};         // state `replied`: the event, until `qp` is connected

  void add_unread() { ++unread, ++owner->unread; }
  void remove_unread() { --unread, --owner->unread; }
};

/// One device's CM agent: its QP1 and the connections of all users.
struct CmAgent {
  CmAgent(std::shared_ptr<control::Device> of, std::unique_ptr<Gsi> qp1, const IbCmConfig& config)
      : device(std::move(of)), gsi(std::move(qp1)), cm(config) {}
  /// The index of `gid` in the device's GID table.
  std::optional<uint8_t> gid_index(const Gid& gid) const;

  std::shared_ptr<control::Device> device;
  std::unique_ptr<Gsi> gsi;
  IbCm cm;
  std::unordered_map<uint32_t, Id*> connections;  // by IbCm's id
  std::map<uint64_t, uint32_t> services;          // services with listeners, and how many they have
};

class User;

struct Manager::Impl {
  Impl(const Secret& seed, Turns by, control::EventPipe pipe)
      : turns(by), psns(seed.derive("psns")), port_numbers(seed.derive("ports")), wake(std::move(pipe)) {}

  void run();
  bool turn(Nanos at);
  /// The work of a turn. The caller holds the lock. True when there was any.
  bool work();
  /// When work() must be called next.
  Nanos deadline() const;
  /// Call it after each user's call: wakes the thread if it must run earlier than planned.
  void reschedule();
  /// Ends the users' ids and channels, and lets the engines tell the peers.
  void end();

  // Ports and addresses (manager_ports.cc).
  Result<void> bind(Id& id, const CmAddress& wanted, bool privileged);
  Result<void> take_port(Id& id, const CmAddress& wanted, bool privileged);
  void release_port(Id& id);
  bool clash(const Id& id, const CmAddress& wanted) const;
  CmAgent* agent_of(const Gid& gid);
  const CmAgent* agent_called(const std::string& device) const;
  /// The device and the source address for packets to `remote`. Errors: ENETUNREACH.
  Result<std::pair<CmAgent*, Gid>> route(const Gid& remote);
  /// The first device with an address of the family of `remote`, and that address. Errors: ENODEV, ENETUNREACH.
  Result<std::pair<CmAgent*, Gid>> first_address(const CmAddress& remote);
  Result<void> resolve_addr(Id& id, const CmAddress& remote, std::chrono::milliseconds timeout);
  void check_resolving();
  void begin_resolving(Id& id, Nanos timeout);
  void check_resolving(Id& id, bool over);
  /// The ids of this listener's requests that hold() keeps.
  std::vector<uint32_t> held_for(const Id& listener) const;
  /// Raises the event of a request, or forgets the request, because an answer would not reach its peer or its
  /// listener's backlog is full.
  void end_hold(Id& id, bool reachable);
  Result<void> listen(Id& id, int backlog);
  void stop_listening(Id& id);
  /// The id that listens for a request to `agent`; nullptr when there is none. `local`: where the peer means to go.
  Id* listener_for(const CmAgent& agent, const CmRequest& request, const CmAddress& local) const;
  Id* find_listener(uint64_t service_id, const CmAddress& local) const;

  // Connections (manager_connect.cc).
  Result<void> connect(Id& id, const CmParam& param);
  Result<void> accept(Id& id, const CmParam& param);
  Result<void> reject(Id& id, std::span<const std::byte> private_data, uint8_t reason);
  Result<void> disconnect(Id& id);
  /// The one place that carries out what an IbCm's step led to. The step is complete, so any call may follow.
  void carry_out(CmAgent& agent, CmActions&& actions);
  Result<void> carry_out(CmAgent& agent, Result<CmActions>&& actions);
  /// The backlog that an arrival waits in; nullptr: nobody here listens for it.
  std::shared_ptr<Backlog> backlog_for(const CmAgent& agent, const CmRequest& request) const;
  void on_event(CmAgent& agent, CmMessage&& message);
  void on_request(CmAgent& agent, uint32_t connection, CmRequest&& request);
  /// Keeps a request's event until its peer's Ethernet address is known, so that the program's
  /// ibv_modify_qp(IBV_QPS_RTR) does not wait for the network.
  void hold(Id& id, CmEvent event);
  void on_withdrawn(CmAgent& agent, uint32_t connection);
  void on_reply(Id& id, CmReply&& reply);
  /// Moves the queue pair of a replied id to RTS and establishes the connection, or reports why not (manager_qp.cc).
  void connect_queue_pair(Id& id, bool reachable);
  /// The same for all ids whose peers have answered, once the peer's Ethernet address is known.
  void connect_answered();

  // Ids and events (manager.cc).
  /// After the owner has reserved it.
  Id& make_id(Owner& owner, std::shared_ptr<EventChannel> channel, PortSpace space, QpType type);
  void destroy(Id& id);
  void raise_event(const Id& id, CmEvent event);
  /// Pays the bytes that `channel` owes once the lock is free.
  void pay_later(const std::shared_ptr<EventChannel>& channel);
  /// Whether a program's `call` may raise one more event. Errors: ENOMEM.
  static Result<void> check_unread(const Id& id, const char* call);
  void forget_connection(Id& id);

  mutable std::mutex mutex;             ///< taken by Guard
  Nanos now{0};                         // of the turn or call that has the lock
  std::atomic<std::thread::id> holder;  // of the lock
  const Turns turns;
  bool ended = false;
  std::set<User*> users;
  std::size_t changing = 0;                          // ids whose connection begins or ends; outlives `ids`
  std::vector<std::shared_ptr<EventChannel>> owing;  // channels to pay_bytes() of
  SecretStream psns;
  SecretStream port_numbers;
  std::vector<std::unique_ptr<CmAgent>> agents;
  std::unordered_map<uint32_t, std::unique_ptr<Id>> ids;
  std::map<std::pair<PortSpace, uint16_t>, std::vector<Id*>> ports;
  Resolving<Owner, Id> resolving;
  std::vector<uint32_t> answered;  // ids with an `answer`
  uint32_t next_number = 1;

  control::EventPipe wake;
  std::atomic<bool> wake_owed{false};
  std::atomic<bool> stopping{false};
  bool more = false;                     // more datagrams have arrived
  bool gathering = false;                // the next datagrams are gathered for a while
  std::atomic<Nanos> planned{Nanos(0)};  // the next turn
  std::thread thread;
};

/// The lock of everything. When it is free again, the engine is woken for messages that were queued under it: it may
/// run in this thread, and the events of its frames wake threads that need the lock. Then the programs are woken that
/// have new events, and need it, too.
class Manager::Guard {
 public:
  /// On the thread that runs the engines, polls them while another thread has the lock, which may need them.
  explicit Guard(Impl& manager) : manager_(manager), lock_(lock(manager)) { take(steady_now()); }
  /// For a turn at `now`. Does not wait: ask held().
  Guard(Impl& manager, Nanos now) : manager_(manager), lock_(manager.mutex, std::try_to_lock) {
    if (held()) take(now);
  }
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;
  ~Guard() {
    if (!lock_.owns_lock()) return;
    std::vector<std::pair<std::shared_ptr<EventChannel>, std::size_t>> due;
    for (auto& channel : std::exchange(manager_.owing, {})) {
      const std::size_t bytes = channel->take_owed();
      due.emplace_back(std::move(channel), bytes);
    }
    manager_.holder.store({}, std::memory_order_relaxed);
    lock_.unlock();
    for (const auto& agent : manager_.agents) agent->gsi->wake_engine();
    if (manager_.wake_owed.load(std::memory_order_relaxed) && manager_.wake_owed.exchange(false))
      manager_.wake.signal();
    for (const auto& [channel, bytes] : due) pay(*channel, bytes);
  }
  bool held() const { return lock_.owns_lock(); }

 private:
  static std::unique_lock<std::mutex> lock(Impl& manager) {
    if (manager.turns == Turns::own_thread || manager.agents.empty()) return std::unique_lock(manager.mutex);
    return manager.agents.front()->device->runner().lock(manager.mutex);
  }
  void take(Nanos now) {
    manager_.holder.store(std::this_thread::get_id(), std::memory_order_relaxed);
    manager_.now = now;
  }
  void pay(EventChannel& channel, std::size_t bytes) {
    const std::size_t left = bytes - channel.write(bytes);
    if (left == 0) return;
    const auto held = lock(manager_);
    channel.owe(left);
  }

  Impl& manager_;
  std::unique_lock<std::mutex> lock_;
};

/// "192.0.2.1:80", "[2001:db8::1]:80".
std::string text_of(const CmAddress& address);
/// The error of a `call` that the id's state does not allow. `needed`: the state that it needs.
std::unexpected<Error> wrong_state(const Id& id, const char* call, const char* needed);

/// Attributes for the queue pair of a connection (manager_attr.cc).
Result<std::pair<QpAttr, QpAttrMask>> attributes_of(const Id& id, QpState state);

/// A queue pair's steps from INIT to RTR, and to RTS (manager_qp.cc).
using StepsToRts = std::array<message::ModifyStep, 2>;
/// Those for the connection of `id`. Errors: EINVAL (the peer has neither asked nor answered).
Result<StepsToRts> steps_to_rts(const Id& id);
/// Waits for the peer's Ethernet address for `patience` at most. Errors: those of ControlQp::modify().
Result<void> apply(control::ControlQp& qp, const StepsToRts& steps, std::chrono::nanoseconds patience);

}  // namespace uroce::cm
