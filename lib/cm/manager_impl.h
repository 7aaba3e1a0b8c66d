// The inside of Manager, for the files that implement it. One lock guards everything.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
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
#include "cm/agent.h"
#include "cm/event_channel.h"
#include "cm/id.h"
#include "cm/manager.h"
#include "cm/resolving.h"
#include "cm/slowdown.h"
#include "control/event_pipe.h"

namespace uroce::cm {

class User;

/// A queue pair's steps from INIT to RTR, and to RTS (manager_qp.cc).
using StepsToRts = std::array<message::ModifyStep, 2>;

/// A queue pair on its way to RTS.
struct MovingQp {
  std::unique_lock<std::mutex> keep;  // of Owner::queue_pairs, and freed after `qp`
  std::shared_ptr<control::ControlQp> qp;
  uint32_t id = 0;
  Result<StepsToRts> steps;
};

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

  // A planned restart (manager_pause.cc, manager_snapshot.cc, manager_adopt.cc).
  Result<void> pause();
  void resume();
  bool outlive_threads();
  /// The manager's thread: waits while there is a pause.
  void park();
  void end_pause();
  void wait_step();
  ManagerSnapshot snapshot();
  Result<void> adopt(ManagerSnapshot snapshot);
  Result<void> adopt(AgentSnapshot snapshot);
  static void adopt_counters(CmAgent& agent, const std::vector<std::pair<std::string, uint64_t>>& counts);
  IdSnapshot snapshot_of(const Id& id) const;
  /// Errors: EPROTO, and those of the owner's budget.
  Result<void> adopt(Owner& owner, const std::shared_ptr<EventChannel>& channel, const IdSnapshot& snapshot);
  Result<void> check(const Owner& owner, const IdSnapshot& snapshot) const;
  Result<void> take_port_again(Id& id, const IdSnapshot& snapshot);
  /// A request waits in its listener's backlog again.
  Result<void> wait_again(const IdSnapshot& request);
  void end_connections_of_nobody(CmAgent& agent);

  // Ports and addresses (manager_ports.cc).
  Result<void> bind(Id& id, const CmAddress& wanted, bool privileged);
  Result<void> take_port(Id& id, const CmAddress& wanted, bool privileged);
  void release_port(Id& id);
  bool clash(const Id& id, const CmAddress& wanted) const;
  /// Whether `id` and `other`, which have the same port, cannot both have it.
  static bool excludes(const Id& id, const Id& other, bool both_listen);
  CmAgent* agent_of(const Gid& gid);
  CmAgent* agent_called(const std::string& device) const;
  static std::vector<std::pair<std::string, uint64_t>> counters_of(const CmAgent& agent);
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
  Result<void> start_listening(Id& id, uint32_t backlog);
  void stop_listening(Id& id);
  /// The id that listens for a request to `agent`; nullptr when there is none. `local`: where the peer means to go.
  Id* listener_for(const CmAgent& agent, const CmRequest& request, const CmAddress& local) const;
  Id* find_listener(uint64_t service_id, const CmAddress& local) const;

  // Connections (manager_connect.cc).
  Result<void> connect(Id& id, const CmParam& param);
  Result<void> accept(Id& id, const CmParam& param);
  Result<void> reject(Id& id, std::span<const std::byte> private_data, uint8_t reason);
  Result<void> disconnect(Id& id);
  /// The one place that carries out what an IbCm's step led to (manager_actions.cc). The step is complete, so any call
  /// may follow.
  void carry_out(CmAgent& agent, CmActions&& actions);
  Result<void> carry_out(CmAgent& agent, Result<CmActions>&& actions);
  /// The backlog that an arrival waits in; nullptr: nobody here listens for it.
  std::shared_ptr<Backlog> backlog_for(const CmAgent& agent, const CmRequest& request) const;
  /// Learns whose connections have ended by wrong keys.
  void note_wrong_keys(CmAgent& agent);
  /// Whether the request's peer has guessed keys and must repeat it. Counts that, and remembers it for slowed().
  bool slows(CmAgent& agent, const CmRequest& request);
  void on_event(CmAgent& agent, CmMessage&& message);
  void on_request(CmAgent& agent, uint32_t connection, CmRequest&& request);
  /// Keeps a request's event until its peer's Ethernet address is known, so that the program's
  /// ibv_modify_qp(IBV_QPS_RTR) does not wait for the network.
  void hold(Id& id, CmEvent event);
  void on_withdrawn(CmAgent& agent, uint32_t connection);
  void on_reply(Id& id, CmReply&& reply);
  /// The peer has rejected the path MTU and named a smaller one: the id connects again with that. False: it has not
  /// (manager_mtu.cc).
  bool connects_with_less(Id& id, const CmMessage& rejected);
  /// Looks for the Ethernet addresses of peers that have answered.
  void resolve_answered();
  /// Moves the queue pairs of ids with an answer, once their peers' addresses are known, to RTS and establishes the
  /// connections, or reports why not (manager_qp.cc). Of the thread that takes the turns, without the lock: engines may
  /// stand still, and a program may be destroying queue pairs.
  void connect_queue_pairs();
  std::optional<MovingQp> next_moving();
  /// The id if it has an `answer`, else nullptr.
  Id* find_answered(uint32_t number) const;
  bool still_answered(uint32_t number);
  void end_move(const MovingQp& moved, Result<void> done);
  /// The id no longer waits to connect its queue pair, which stays as it is.
  void forget_answer(Id& id);

  // Ids and events (manager_ids.cc).
  Id& add_id(Owner& owner, std::shared_ptr<EventChannel> channel, uint32_t number);
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
  Slowdown slowdown;
  Resolving<Owner, Id> resolving;
  std::vector<uint32_t> answered;                    // ids with an `answer`
  std::deque<std::pair<uint32_t, bool>> looked_for;  // of these: whether the peer's Ethernet address is known
  bool moving = false;                               // the thread that takes the turns is in connect_queue_pairs()
  uint32_t next_number = 1;

  control::EventPipe wake;
  std::atomic<bool> wake_owed{false};
  std::atomic<bool> stopping{false};
  bool more = false;                     // more datagrams have arrived
  bool gathering = false;                // the next datagrams are gathered for a while
  std::atomic<Nanos> planned{Nanos(0)};  // the next turn
  std::thread thread;
  std::mutex pause_mutex;
  std::condition_variable pause_changed;
  std::atomic<bool> pausing{false};
  std::atomic<bool> parked{false};  // the thread waits for the end of a pause
  bool adopted = false;             // during a pause: another manager's connections
};

/// The lock of everything. When it is free again, the engine is woken for messages that were queued under it: it may
/// run in this thread, and the events of its frames wake threads that need the lock. Then the programs are woken that
/// have new events, and need it, too.
class Manager::Guard {
 public:
  /// On the thread that runs the engines, polls them while another thread has the lock, which may need them.
  explicit Guard(Impl& manager) : manager_(manager), lock_(lock(manager)) { take(steady_now()); }
  /// Takes the lock for a turn at `now`, and does not wait: ask held().
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

/// Attributes for the queue pair of a connection (manager_attr.cc).
Result<std::pair<QpAttr, QpAttrMask>> attributes_of(const Id& id, QpState state);

/// The steps for the queue pair of `id` (manager_qp.cc). Errors: EINVAL (the peer has neither asked nor answered).
Result<StepsToRts> steps_to_rts(const Id& id);
/// Waits for the peer's Ethernet address for `patience` at most. Errors: those of ControlQp::modify().
Result<void> apply(control::ControlQp& qp, const StepsToRts& steps, std::chrono::nanoseconds patience);

}  // namespace uroce::cm
