// The interface of a device to the owner of its port, who runs its engines.
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
  /// A new descriptor, which the caller owns: another process writes a byte to it to end the sleep of an engine.
  /// Changing its flags cannot make this process wait. Errors: EMFILE and the like.
  virtual Result<int> wake_descriptor(uint32_t engine) = 0;
  /// Calls `work` with the time of clock() on the calling thread, in place of the engine's thread, where that thread
  /// sleeps or has yielded its core: it is then between two bursts, and waking it would cost two context switches.
  /// False, without calling it, where that thread runs.
  virtual bool run_in_place(uint32_t /*engine*/, const std::function<void(Nanos)>& /*work*/) { return false; }
  /// One step of waiting for an engine or the network: polls the engines where the calling thread runs them, else
  /// yields the core for a moment.
  virtual void wait_step() = 0;
  /// True where wait_step() polls the engines: the calling thread must then never block anywhere else.
  virtual bool runs_engines_here() const { return false; }
  /// The Ethernet address of the next hop towards `dgid`; queries the network when it is unknown. Blocks at most
  /// `timeout`. Addresses of one `user` (transport::Owner) are resolved a number at a time, the others in their turn.
  /// Errors: EHOSTUNREACH (no reply, or no turn within the time), ENETUNREACH (no route), EACCES (the device does not
  /// take that peer).
  virtual Result<EthAddr> resolve(const Gid& sgid, const Gid& dgid, uint32_t user,
                                  std::chrono::nanoseconds timeout) = 0;
  /// The cached address, without querying the network; nullopt when it is unknown. After resolve(), callers read it
  /// here again under the control lock. Later changes reach them through Device::redirect().
  virtual std::optional<EthAddr> next_hop(const Gid& dgid) = 0;
  /// The device's first queue pair joined a multicast group, or its last one left. The port starts or stops receiving
  /// the group, and reports it on the link (IGMP, MLD). Neither call waits.
  virtual void join_group(const Gid& group) = 0;
  virtual void leave_group(const Gid& group) = 0;
  /// The port's address for packets to `dgid`. Errors: ENETUNREACH (no route).
  virtual Result<Gid> source_for(const Gid& dgid) = 0;
  virtual bool link_up() const = 0;
  /// False while a thread that sends or receives for the device has not had its core for some time: an answer from the
  /// network may then lie unread, or the question unsent.
  virtual bool keeps_up() const { return true; }
  virtual Sending sending() const { return Sending::by_driver; }
  /// The clock that the engines are polled with.
  virtual Nanos clock() const = 0;
};

}  // namespace uroce::control
