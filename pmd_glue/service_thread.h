// The service thread: slow paths and links of all ports. One plain thread per stack.
#pragma once

#include <atomic>
#include <functional>
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
    Port* port = nullptr;
    Neighbourhood* neighbourhood = nullptr;
    uint32_t pollers = 1;                  ///< threads that poll the port
    std::function<void(bool up)> on_link;  ///< service thread; after each change
  };

  explicit ServiceThread(const TscClock& clock) : clock_(clock) {}
  ~ServiceThread() { stop(); }
  ServiceThread(const ServiceThread&) = delete;
  ServiceThread& operator=(const ServiceThread&) = delete;

  Waker& waker() { return waker_; }
  /// `prepare` runs first on the new thread. All that `ports` refer to outlives stop().
  void start(std::vector<ServedPort> ports, std::function<void()> prepare);
  void stop();

 private:
  void run();

  const TscClock& clock_;
  Waker waker_;
  std::vector<ServedPort> ports_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace uroce::glue
