// A process that lives on in the daemon's memory when the daemon is killed or crashes.
//
// It is made by clone(2) with the daemon's memory and descriptors, and sleeps until all of the daemon's threads are
// dead. So nothing has to be written down while the daemon lives.
#pragma once

#include <sched.h>
#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <functional>

#include <uroce/error.h>

#include "message/connection.h"

namespace uroce::daemon {

/// The main thread's.
class Keeper {
 public:
  /// How it is made, for a filter of system calls. It has the rights of the thread that starts it.
  static constexpr int kCloneFlags = CLONE_VM | CLONE_FILES | CLONE_PIDFD;
  /// The longest that `rescue` may take. Then the keeper ends, and the kernel closes its descriptors.
  static constexpr std::chrono::seconds kPatience{5};

  Keeper() = default;
  /// Calls dismiss().
  ~Keeper() { dismiss(); }
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;

  /// Where this process dies before dismiss(), `rescue` runs there, in place of the calling thread, whose thread-local
  /// memory it uses. Locks may be held by the dead, and what they guard may be half changed. It is not running yet.
  /// Errors: those of clone(2), eventfd(2), mmap(2) and pidfd_open(2).
  Result<void> start(std::function<void()> rescue);
  /// Ends it; no effect without one. Call it where the process is about to end as it should.
  void dismiss();
  bool running() const { return id_ > 0; }

 private:
  static int wait_for_death(void* keeper);
  void run_rescue();

  std::function<void()> rescue_;
  message::Fd daemon_;   // this process, as pidfd_open(2) names it
  message::Fd process_;  // the keeper
  message::Fd bell_;     // tells it to end
  pid_t id_ = -1;
  std::byte* stack_ = nullptr;
};

}  // namespace uroce::daemon
