// Passes an engine's events, which carry numbers, to the session or channel of the object.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "control/async_events.h"
#include "control/id_table.h"
#include "transport/core/seam.h"

namespace uroce::control {

class CompletionListener;

/// Connections of a peer with a user that have ended because the peer named wrong keys.
struct WrongKeys {
  Gid peer{};
  uint32_t user = 0;  ///< transport::Owner::user
  uint32_t connections = 0;
};

/// Ends of queue pairs since the last report.
struct QpEnds {
  struct One {
    uint32_t client = 0;  ///< transport::Owner::client
    transport::QpEnd end{};
  };
  std::vector<One> ends{};
  uint64_t more = 0;  ///< that found no room
};

class EventRouter final : public transport::EngineEvents {
 public:
  /// `cqs`: those of the device; outlives this.
  explicit EventRouter(const IdTable<CompletionListener>& cqs) : cqs_(cqs) {}

  // Callers hold the control lock. Remove a number only after the engines have detached its object.
  /// Several queues may have one object's events, and one queue may be added more than once.
  void add(EventObject kind, uint32_t object, AsyncEventQueue& queue);
  /// Also discards the object's pending events.
  void remove(EventObject kind, uint32_t object);
  /// Undoes one add() of `queue`.
  void remove(EventObject kind, uint32_t object, AsyncEventQueue& queue);
  void add_listener(AsyncEventQueue& queue);
  void remove_listener(AsyncEventQueue& queue);

  /// The numbers of all objects of a kind. Any thread.
  std::vector<uint32_t> objects(EventObject kind);

  /// To every session. Any thread.
  void broadcast(AsyncEvent event);

  /// Takes the reports of the engines. Cheap when there are none. Any thread.
  std::vector<WrongKeys> take_wrong_keys();
  QpEnds take_ends();

  void on_completion_event(uint32_t cq_id) override;
  void on_async_event(AsyncEventType type, uint32_t object) override;
  void on_wrong_key(const Gid& peer, uint32_t qpn) override;
  void on_end(const transport::QpEnd& end) override;

 private:
  /// Of peers and users that wait to be taken; more are forgotten.
  static constexpr std::size_t kWrongKeys = 64;
  static constexpr std::size_t kEnds = 64;

  using Routes = std::unordered_multimap<uint64_t, AsyncEventQueue*>;
  void end_route(Routes::iterator route);
  static uint64_t key(EventObject kind, uint32_t object) { return uint64_t{static_cast<uint8_t>(kind)} << 32 | object; }

  const IdTable<CompletionListener>& cqs_;
  std::mutex mutex_;  // guards the members below; engines take it for asynchronous events only
  Routes routes_;
  std::vector<AsyncEventQueue*> listeners_;
  std::array<WrongKeys, kWrongKeys> wrong_keys_{};
  std::atomic<std::size_t> wrong_keys_used_{0};  // changes under the mutex
  std::array<QpEnds::One, kEnds> ends_{};
  std::atomic<uint64_t> ends_told_{0};  // likewise
};

}  // namespace uroce::control
