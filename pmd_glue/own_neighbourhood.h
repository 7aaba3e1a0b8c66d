// The slow path of a port with addresses of its own: it asks and answers on the link itself. Workers pass everything
// that is not RoCE to the service thread, and its answers come back.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/counter.h"
#include "net/memberships.h"
#include "net/neighbours.h"
#include "pmd_glue/neighbourhood.h"
#include "pmd_glue/waker.h"

namespace uroce::glue {

class OwnNeighbourhood final : public Neighbourhood {
 public:
  /// `service` wakes the thread that calls step(). All references outlive this.
  OwnNeighbourhood(Port& port, uint16_t vlan, net::AddressTable table, uint32_t engines, Waker& service,
                   const TscClock& clock, uint64_t seed);

  bool deliver(uint32_t engine, std::span<const std::byte> frame) override;
  FrameRing* outgoing() override { return &outgoing_; }
  /// Wakes the thread of engine 0 when there are frames to send. Set it before the first frame.
  void set_sender(Waker* sender) { sender_ = sender; }
  /// Any thread: replaces addresses and gateways. The next step() announces them on the link.
  void set_table(net::AddressTable table);
  std::optional<EthAddr> next_hop(const Gid& dgid) override;
  void join(const Gid& group) override;
  void leave(const Gid& group) override;
  Result<Gid> source_for(const Gid& dgid) override;
  /// Handles received frames, repeats requests, ages entries. With `announce` it announces our addresses first.
  void step(bool announce) override;
  Nanos next_deadline() override;
  std::vector<std::pair<std::string, uint64_t>> counters() const override;

 private:
  Result<Hop> begin_resolve(const Gid& dgid, uint32_t user) override;
  std::optional<EthAddr> look_up(const Gid& hop) override;
  bool given_up(const Gid& hop) override;
  void send(std::span<const std::byte> frame);
  void receive(std::span<const std::byte> frame, Nanos now);
  void run(bool announce);
  net::AddressTable table_of_now();
  void tell_of_changes();
  void tell_of_conflicts(std::span<const net::NeighbourAddress> conflicts) const;

  const uint16_t vlan_;
  Waker* sender_ = nullptr;
  std::vector<std::unique_ptr<FrameRing>> incoming_;  ///< by engine
  FrameRing outgoing_;
  Counter send_lost_;
  std::map<Gid, EthAddr> moved_;  ///< service thread: changes that redirect() has not taken yet

  std::mutex mutex_;  ///< guards the members below and the producer's end of outgoing_
  net::Neighbours neighbours_;
  net::Memberships memberships_;
  bool announce_ = false;                   ///< at the next step
  uint64_t heard_generation_ = UINT64_MAX;  ///< generation of memberships_ that the port receives
};

}  // namespace uroce::glue
