// What a device asks of whoever runs its engines and owns its port.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>

#include <uroce/error.h>
#include <uroce/types.h>

#include "base/time.h"

namespace uroce::control {

class DeviceHost {
 public:
  virtual ~DeviceHost() = default;
  /// Ends the sleep of an engine. Any thread; cheap when it is awake.
  virtual void wake(uint32_t engine) = 0;
  /// A new descriptor, the caller's, into which another process writes a byte to end the sleep of an engine. Its flags
  /// are its own: nothing done to it makes this process wait. Errors: EMFILE and the like.
  virtual Result<int> wake_descriptor(uint32_t engine) = 0;
  /// Calls `work` with the time of clock() on the calling thread, in place of the thread that runs the engine, where
  /// that one sleeps or has given its core away: waking it would cost two switches between threads, and it stands
  /// between two bursts. False, and nothing done, where it is at work.
  virtual bool run_in_place(uint32_t /*engine*/, const std::function<void(Nanos)>& /*work*/) { return false; }
  /// One step of waiting for an engine or the network: polls where the calling thread is the one that runs the
  /// engines, else gives the core away for a moment.
  virtual void wait_step() = 0;
  /// True where wait_step() polls the engines: the calling thread must then never block anywhere else.
  virtual bool runs_engines_here() const { return false; }
  /// The Ethernet address of the next hop towards `dgid`, asked for on the wire when unknown. Blocks at most `timeout`.
  /// Errors: EHOSTUNREACH (nobody answers), ENETUNREACH (no route).
  virtual Result<EthAddr> resolve(const Gid& sgid, const Gid& dgid, std::chrono::nanoseconds timeout) = 0;
  /// The same as known now, without asking; nullopt when it is not known. Whoever installs a resolved address looks
  /// here once more under the control lock: Device::redirect() tells of changes after that.
  virtual std::optional<EthAddr> next_hop(const Gid& dgid) = 0;
  /// Queue pairs of the device listen to a multicast group now, or do so no more: the port must receive it, and its
  /// link must know. Neither waits.
  virtual void join_group(const Gid& group) = 0;
  virtual void leave_group(const Gid& group) = 0;
  /// Which of our addresses speaks to `dgid`. Errors: ENETUNREACH (no route).
  virtual Result<Gid> source_for(const Gid& dgid) = 0;
  virtual bool link_up() const = 0;
  /// The clock that the engines are polled with.
  virtual Nanos clock() const = 0;
};

}  // namespace uroce::control
