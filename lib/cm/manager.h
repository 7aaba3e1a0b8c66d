// rdma_cm(7) for all devices of a process: ids with IP addresses and ports. It uses one IB connection manager and one
// QP1 per device. MADs are received and timers run in turns: by a thread of its own, or by the thread that runs the
// engines.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <uroce/cm_types.h>
#include <uroce/error.h>
#include <uroce/types.h>

#include "base/guess_table.h"
#include "base/secret.h"
#include "base/time.h"
#include "cm/id_budget.h"
#include "cm/snapshot.h"
#include "control/device.h"
#include "control/event_pipe.h"
#include "message/cm_calls.h"
#include "transport/engine/owners.h"

namespace uroce::control {
class ControlQp;
}  // namespace uroce::control

namespace uroce::cm {

struct UserLimits {
  std::shared_ptr<IdBudget> budget{};  ///< of ids; nullptr: unlimited
  bool privileged_ports = false;       ///< may bind ports below 1024
  uint32_t client = 0;                 ///< for Manager::rows()
  uint32_t user = transport::Owner::kNobody;
};

/// One id, for lists. The state's name is the kernel's.
struct IdRow {
  uint32_t id = 0;
  std::string device;  ///< empty: on none, or on all
  std::string state;
  PortSpace space{};
  std::string local, remote;  ///< address and port; empty: none
};

/// Connection requests that wait for their repetition.
struct Slowed {
  uint64_t requests = 0;
  Gid last{};  ///< the sender of the last one
};

/// One program's ids and event channels.
class ManagerUser : public message::CmCalls {
 public:
  ~ManagerUser() override = default;  ///< destroys all ids and channels

  /// Returns a number, and a descriptor to poll. The descriptor holds one byte per event, and the manager owns it.
  virtual Result<std::pair<uint32_t, int>> create_channel() = 0;
  /// Counts on each time after bytes were written to the channel's descriptor, and when the channel has ended. A reader
  /// in this process that sees the same count as before its last look need not look again. nullptr: no such channel.
  virtual std::shared_ptr<const std::atomic<uint64_t>> changes(uint32_t channel) = 0;
  /// A call for the id failed that its program does not wait for: raises connect_error with the errno value `code`,
  /// unless the program hears of the connection's end anyway, or does not read its events. No effect without the id.
  virtual void report_failure(uint32_t id, int code) = 0;
  /// See CmId::connect() and accept() with a queue pair. accept_qp() may wait for the peer's Ethernet address. The
  /// queue pair of a call that fails is left as it is (connect_qp()), or in the error state.
  virtual Result<void> connect_qp(uint32_t id, const CmParam& param, const std::shared_ptr<control::ControlQp>& qp) = 0;
  virtual Result<void> accept_qp(uint32_t id, const CmParam& param, const std::shared_ptr<control::ControlQp>& qp) = 0;
  /// While the caller holds it, the manager holds no queue pair of the program. The daemon destroys them with it. A
  /// program in this process does not, so the manager's thread may be the last to have one.
  virtual std::unique_lock<std::mutex> keep_queue_pairs() = 0;

  // A planned restart (snapshot.h), while the manager is paused.
  virtual ProgramSnapshot snapshot() = 0;
  /// Goes on with what the program had with another manager, after that manager's part. `pipes`: of the channels, in
  /// their order. After an error the user has some of it, and is to be ended. Errors: EPROTO (it makes no sense), those
  /// of create_id().
  virtual Result<void> adopt(ProgramSnapshot snapshot, std::vector<control::EventPipe> pipes) = 0;
  /// Another manager keeps the program: its pipes are not touched any more.
  virtual void abandon() = 0;
};

/// The thread that takes a manager's turns.
enum class Turns : uint8_t {
  own_thread,      ///< a thread of the manager's, which sleeps meanwhile
  engines_thread,  ///< the thread that runs the engines, by Manager::turn()
};

/// The clock of managers. Programs' calls and a manager's own thread read it; turn() gets it from its caller.
inline Nanos steady_now() { return std::chrono::steady_clock::now().time_since_epoch(); }

class Manager {
 public:
  /// Opens the QP1 of each device. `seed`: for port numbers, PSNs and ids. Errors: EBUSY (a QP1 is open already),
  /// ENOMEM, EMFILE, ETIMEDOUT.
  static Result<std::unique_ptr<Manager>> start(const std::vector<std::shared_ptr<control::Device>>& devices,
                                                const Secret& seed, Turns turns = Turns::own_thread);
  /// Ends the ids of all users as their destruction does, and gives the engines a moment to tell the peers. The users
  /// may live on: their channels end, and their calls fail with ENODEV. No other thread may be inside one of their
  /// calls.
  ~Manager();
  Manager(const Manager&) = delete;
  Manager& operator=(const Manager&) = delete;

  /// Any thread.
  std::unique_ptr<ManagerUser> open(const UserLimits& limits);
  /// With Turns::engines_thread, on that thread alone: receives MADs, and does what is due. Cheap when there is
  /// nothing. Never waits: where another thread makes a call, the next turn does the work. True when there was work.
  /// `now`: of steady_now().
  bool turn(Nanos now);
  /// When turn() has work next, unless a MAD arrives or somebody makes a call; as steady_now(). Any thread.
  Nanos deadline() const;
  /// One device's counters by name: messages by kind, and drops by reason. Any thread.
  std::vector<std::pair<std::string, uint64_t>> counters(const std::string& device) const;
  /// The peers that sent the device messages for connections that do not exist, in the order of addresses. Any thread.
  std::vector<PeerGuesses> guesses(const std::string& device) const;
  /// How many such messages there were. Any thread; cheap.
  uint64_t guess_count(const std::string& device) const;
  /// The requests of peers that have guessed keys (slowdown.h) which were dropped. Any thread; cheap when there are
  /// none.
  Slowed slowed(const std::string& device) const;
  /// Up to `most` ids of a program after `after`. Any thread.
  std::vector<IdRow> rows(uint32_t client, uint32_t after, std::size_t most) const;

  // A planned restart.
  /// Until resume() no turn is taken and no MAD leaves. No user makes a call meanwhile. Errors: ETIMEDOUT, with nothing
  /// paused.
  Result<void> pause();
  /// Ends that. Connections that no user has adopted end.
  void resume();
  /// All threads but the calling one have died. The manager is paused from now on. False: one of them was changing what
  /// the manager has, which makes no sense any more.
  bool outlive_threads();
  /// All that belongs to no user. The manager and the engines are paused.
  ManagerSnapshot snapshot();
  /// Goes on with what another manager has. This one is paused, and has no users yet. Connections that make no sense
  /// are left out; the error is that of the first.
  Result<void> adopt(ManagerSnapshot snapshot);

  struct Impl;
  class Guard;

 private:
  explicit Manager(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

}  // namespace uroce::cm
