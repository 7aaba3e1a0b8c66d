// The actions of a step of the connection manager: MADs to send, events for applications, and requests that want a
// place in a backlog. The step is complete when its caller gets them, and the caller carries them out.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <utility>
#include <variant>
#include <vector>

#include "cm/ib/mad.h"
#include "cm/ib/request.h"
#include "message/cm_reject_reasons.h"

namespace uroce::cm {

using message::RejReason;

enum class CmEventKind : uint8_t {
  request,      ///< passive: a REQ or SIDR_REQ arrived and created `id`; answer with accept() or reject()
  reply,        ///< active: a REP arrived; answer with ready() or reject()
  established,  ///< passive: an RTU, or packets of the peer (notify_established()); active UD: SIDR_REP with status 0
  rejected,  ///< a REJ in any state but DREQ sent, or a SIDR_REP with another status; also when we reject a stale REP
  disconnected,  ///< a DREQ arrived (the DREP is sent already), or a DREP to our DREQ, or no answer to our DREQ
  unreachable,   ///< active: no answer to the REQ or SIDR_REQ; passive: no answer to the REP
  /// Time-wait is over: the queue pair's number may be used again. Comes after `disconnected`, after `unreachable` on
  /// the passive side, and after `rejected` if the REJ came after a REP from the peer or in an established connection,
  /// or has the reason stale_connection. In other cases, and with UD, there is no time-wait and no such event.
  timewait_exit,
  /// Passive: a request that nobody had received made room for another one (backlog.h). Its id is gone. The peer
  /// repeats it as if it had been lost.
  withdrawn,
};

/// An event. Each id gets at most one of rejected, disconnected and unreachable, and none after destroy().
struct CmMessage {
  CmEventKind kind{};
  uint32_t id = 0;
  uint64_t listener = 0;                  ///< `request`: the token given to listen()
  CmRequest request{};                    ///< `request`; in its path, sgid is ours
  CmReply reply{};                        ///< `reply`; with UD also `established` and `rejected`
  uint16_t reason = 0;                    ///< `rejected`: RejReason, or the SIDR status
  std::vector<std::byte> info{};          ///< `rejected`: additional reject information
  std::vector<std::byte> private_data{};  ///< `established`, `rejected`, `disconnected`
};

/// A MAD to queue pair 1 at `path.dgid`, from `path.sgid`. If it cannot be sent, it counts as lost.
struct OutgoingMad {
  CmPath path;
  Mad mad;
};

/// A request for a listener's service. IbCm::admit() makes it a connection, or it is as if it had been lost.
struct CmArrival {
  uint64_t listener = 0;  ///< the token given to listen()
  CmRequest request{};
  uint32_t remote_id = 0;
  uint64_t remote_guid = 0;  ///< the CA GUID in the REQ
  uint64_t transaction_id = 0;
  bool alternate_path = false;
};

using CmAction = std::variant<std::monostate, OutgoingMad, CmMessage, CmArrival>;

/// The actions of one step, in their order.
class CmActions {
 public:
  /// A stale REP leads to the most: a REJ, an event, and a probe of the connection that seems stale.
  static constexpr std::size_t kMost = 3;

  CmActions() = default;
  CmActions(CmActions&& other) noexcept : actions_(std::move(other.actions_)), count_(std::exchange(other.count_, 0)) {}
  CmActions& operator=(CmActions&&) = delete;
  CmActions(const CmActions&) = delete;
  CmActions& operator=(const CmActions&) = delete;
  ~CmActions() = default;

  template <class Action, class... Parts>
  Action& add(Parts&&... parts) {
    if (count_ == kMost) std::abort();
    return actions_[count_++].emplace<Action>(std::forward<Parts>(parts)...);
  }
  auto begin() { return actions_.begin(); }
  auto end() { return actions_.begin() + count_; }

 private:
  std::array<CmAction, kMost> actions_;
  std::size_t count_ = 0;
};

}  // namespace uroce::cm
