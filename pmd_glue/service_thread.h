// The service thread runs the slow paths of all ports and watches their links. A stack has one.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "pmd_glue/clock.h"
#include "pmd_glue/neighbourhood.h"
#include "pmd_glue/port.h"
#include "pmd_glue/waker.h"

namespace uroce::glue {

class ServiceThread {
 public:
  struct ServedPort {
    std::string name;  ///< of its device, for notes
    Port* port = nullptr;
    Neighbourhood* neighbourhood = nullptr;
    uint32_t pollers = 1;                  ///< threads that poll the port
    bool known_up = false;                 ///< its link was up before: that it is, is no news
    std::function<void()> on_return;       ///< service thread; when the port's interface came back as another one
    std::function<void(bool up)> on_link;  ///< service thread; after each change
    std::function<void()> on_gone;         ///< service thread; when the card has gone, once
  };

  explicit ServiceThread(const TscClock& clock) : clock_(clock) {}
  ~ServiceThread() { stop(); }
  ServiceThread(const ServiceThread&) = delete;
  ServiceThread& operator=(const ServiceThread&) = delete;

  Waker& waker() { return waker_; }
  /// When the thread's next turn is due at the latest. Any thread.
  Nanos next_turn() const { return next_turn_.load(std::memory_order_relaxed); }
  /// Starts the thread, which first calls `prepare`, and `look` at each look at the links; it returns when it wants the
  /// next one at the latest. Everything that `ports` refers to outlives stop().
  void start(std::vector<ServedPort> ports, std::function<void()> prepare, std::function<Nanos(Nanos now)> look);
  void stop();

 private:
  void run();
  /// Between two looks at the links, after a look `interval` after the one before.
  Nanos interval_after(Nanos interval) const;

  const TscClock& clock_;
  Waker waker_;
  std::vector<ServedPort> ports_;
  std::function<Nanos(Nanos)> look_;
  bool hears_of_links_ = false;  ///< a change of any link wakes the thread
  std::atomic<bool> stop_{false};
  std::atomic<Nanos> next_turn_{Nanos(0)};
  std::thread thread_;
};

}  // namespace uroce::glue
