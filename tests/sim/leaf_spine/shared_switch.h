// A switch of the leaf-spine fabric: output queues in a shared buffer, ECN marking, PFC, and equal-cost paths chosen by
// a hash of addresses and UDP source port.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tests/sim/leaf_spine/link.h"
#include "tests/sim/leaf_spine/shared_buffer.h"
#include "tests/sim/port.h"

namespace uroce::sim {

struct SwitchOptions {
  BufferOptions buffer{};
  EcnMarking ecn{};  ///< of a queue whose link has 100 Gb/s; others in proportion
  uint64_t seed = 1;
};

struct SwitchCounters {
  uint64_t received = 0;
  uint64_t dropped = 0;  ///< for want of room
  uint64_t no_way = 0;   ///< dropped because every way to the host is down
  uint64_t marked = 0;
};

class SharedSwitch : public PacketReceiver, public PacketSource {
 public:
  SharedSwitch(EventQueue& events, PacketPool& pool, const SwitchOptions& options)
      : events_(events), pool_(pool), options_(options), buffer_(options.buffer), random_(options.seed) {}

  /// The next port, whose link begins here. Its other direction is told to set_upstream().
  Link& add_port(const LinkOptions& link, LinkEnd<PacketReceiver> far);
  /// `link` ends at `port`: PFC pauses it.
  void set_upstream(uint32_t port, Link& link) { upstream_[port] = &link; }
  /// Ports that lead to hosts `first` and on, `hosts` of them; each packet takes one of them by its hash.
  void set_ways(uint32_t first, uint32_t hosts, std::vector<uint32_t> ports);

  void receive(Packet& packet, uint32_t port) override;
  void on_left(const Packet& packet, uint32_t port) override;

  Link& link(uint32_t port) { return *links_[port]; }
  uint32_t ports() const { return static_cast<uint32_t>(links_.size()); }
  const SharedBuffer& buffer() const { return buffer_; }
  const SwitchCounters& counters() const { return counters_; }

 private:
  void mark(Packet& packet, uint32_t out);
  void drop(Packet& packet, uint64_t& counter);

  EventQueue& events_;
  PacketPool& pool_;
  SwitchOptions options_;
  SharedBuffer buffer_;
  Random random_;
  SwitchCounters counters_;
  std::vector<std::unique_ptr<Link>> links_;
  std::vector<Link*> upstream_;
  std::vector<uint32_t> group_of_host_;
  std::vector<std::vector<uint32_t>> groups_;  // ports, by the first host of a group
};

}  // namespace uroce::sim
