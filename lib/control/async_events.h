// One session's asynchronous events: bounded, with a descriptor to poll (ibv_get_async_event(3)).
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include <uroce/types.h>
#include <uroce/verbs/device.h>

#include "control/event_fd.h"
#include "transport/engine/owners.h"

namespace uroce::control {

/// The kind of object that the number in an asynchronous event names.
enum class EventObject : uint8_t { qp, cq, srq, port };
EventObject object_of(AsyncEventType type);

/// Any thread. Engines push: rarely, and with a short lock.
class AsyncEventQueue {
 public:
  /// Events that may wait: of the device, such as changes of addresses, and of each object.
  static constexpr uint32_t kOfDevice = 256;
  static constexpr uint32_t kOfObject = 4;

  /// At most `capacity` events wait; later ones are lost and counted. `owner`: whose session it is.
  explicit AsyncEventQueue(EventFd fd, uint32_t capacity = kOfDevice, const transport::Owner& owner = {});

  int fd() const { return fd_.fd(); }
  uint32_t user() const { return owner_.user; }
  uint32_t client() const { return owner_.client; }
  void push(AsyncEvent event);
  /// The oldest event; never blocks.
  std::optional<AsyncEvent> pop();
  /// Drops the events of an object that is being destroyed, so that its number can be used again.
  void purge(EventObject kind, uint32_t object);
  uint64_t lost() const;
  /// Events of one object more, or less, come here. Makes room for them, and keeps it. Callers hold the control lock.
  void add_object();
  void remove_object() { --objects_; }

 private:
  void grow(uint32_t capacity);

  EventFd fd_;
  const transport::Owner owner_;
  mutable std::mutex mutex_;
  uint32_t capacity_;     // add_object() alone changes it
  uint32_t objects_ = 0;  // guarded by the control lock
  uint32_t first_ = 0;
  uint32_t count_ = 0;
  uint64_t lost_ = 0;
  std::unique_ptr<AsyncEvent[]> events_;
};

}  // namespace uroce::control
