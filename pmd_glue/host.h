// A device's host: the services of this process for the device's control code.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "base/peer_list.h"
#include "control/device_host.h"
#include "pmd_glue/clock.h"
#include "pmd_glue/neighbourhood.h"
#include "pmd_glue/port.h"
#include "pmd_glue/service_thread.h"
#include "pmd_glue/worker.h"

namespace uroce::glue {

class Host final : public control::DeviceHost {
 public:
  /// `workers` run the engines, by index; `service` runs the neighbourhood. `poll` makes one pass over all engines on
  /// the calling thread; it is empty unless embedded. `owner` is true on the thread that may call `poll`. `peers`: no
  /// address is resolved for others.
  Host(const Port& port, Neighbourhood& neighbourhood, std::vector<Worker*> workers, const ServiceThread& service,
       PeerList peers, std::function<bool()> owner, std::function<void()> poll);

  void wake(uint32_t engine) override { workers_[engine]->wake(); }
  bool run_in_place(uint32_t engine, const std::function<void(Nanos)>& work) override {
    return workers_[engine]->run_in_place(work);
  }
  Nanos clock() const override { return clock_.now(); }
  Result<int> wake_descriptor(uint32_t engine) override { return workers_[engine]->waker().new_descriptor(); }
  void wait_step() override;
  bool runs_engines_here() const override { return owner_(); }
  Result<EthAddr> resolve(const Gid& sgid, const Gid& dgid, uint32_t user, std::chrono::nanoseconds timeout) override;
  std::optional<EthAddr> next_hop(const Gid& dgid) override { return neighbourhood_.next_hop(dgid); }
  void join_group(const Gid& group) override { neighbourhood_.join(group); }
  void leave_group(const Gid& group) override { neighbourhood_.leave(group); }
  Result<Gid> source_for(const Gid& dgid) override { return neighbourhood_.source_for(dgid); }
  bool link_up() const override { return port_.link_up(); }
  bool keeps_up() const override;
  Sending sending() const override { return port_.sending(); }

 private:
  const Port& port_;
  Neighbourhood& neighbourhood_;
  const TscClock clock_;
  const std::vector<Worker*> workers_;
  const ServiceThread& service_;
  const PeerList peers_;
  const std::function<bool()> owner_;
  const std::function<void()> poll_;
};

}  // namespace uroce::glue
