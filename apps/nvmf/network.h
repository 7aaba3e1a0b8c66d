// The place of the RDMA devices and of their connection manager: the stack of this process, or a daemon.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <uroce/cm.h>
#include <uroce/daemon.h>
#include <uroce/verbs.h>

namespace uroce::nvmf {

class Network {
 public:
  virtual ~Network() = default;
  /// The first reactor's thread.
  virtual ConnectionManager& connections() = 0;
  /// Any thread.
  virtual Result<Context> device(const std::string& name) = 0;
  /// Reactors that can run at once, each on a thread of its own: the caller's, and those of start_loop().
  virtual uint32_t reactors() const { return 1; }
  /// The engine of a reactor's queue pairs (QpInit::engine).
  virtual int engine_of(uint32_t /*reactor*/) const { return QpInit{}.engine; }
  /// Calls `loop` on the thread of a reactor, which is 1 or more. Errors: those of Stack::start_loop().
  virtual Result<void> start_loop(uint32_t reactor, const std::function<void()>& loop);
  /// The drivers of this process's ports.
  virtual std::vector<std::string> drivers() const { return {}; }
  /// Returns once all loops have.
  virtual void join_loops() {}
  /// One pass of the engines that run on the calling thread. True when there was work.
  virtual bool poll() = 0;
  /// After a pass without work: gives the core away, until something arrives if wakes(), and for at most `limit`.
  virtual void idle(std::chrono::nanoseconds limit) = 0;
  virtual bool wakes() const = 0;
  /// Any thread: ends the idle() of a reactor, or its next one where it is in none. Without wakes(): no effect, idle()
  /// is short.
  virtual void wake(uint32_t /*reactor*/) {}
};

/// Errors: those of ConnectionManager::open().
Result<std::unique_ptr<Network>> open_daemon_network(const DaemonOptions& daemon);

}  // namespace uroce::nvmf
