// A communication id of rdma_cm, and the program that owns it. All of it is under the manager's lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <uroce/cm_types.h>
#include <uroce/error.h>
#include <uroce/types.h>

#include "cm/event_channel.h"
#include "cm/ib/backlog.h"
#include "cm/id_budget.h"
#include "transport/engine/owners.h"

namespace uroce::control {
class ControlQp;
}  // namespace uroce::control

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
  uint32_t user = transport::Owner::kNobody;
  uint32_t unread = 0;       // the sum of the ids' `unread`
  std::mutex queue_pairs{};  // held while one is connected, and while one is destroyed
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

/// "192.0.2.1:80", "[2001:db8::1]:80".
std::string text_of(const CmAddress& address);
/// The error of a `call` that the id's state does not allow. `needed`: the state that it needs.
std::unexpected<Error> wrong_state(const Id& id, const char* call, const char* needed);

}  // namespace uroce::cm
