// A switch: output queues alone, and equal-cost paths chosen by a hash of addresses and UDP source port.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tests/sim/host.h"
#include "tests/sim/port.h"

namespace uroce::sim {

class Switch : public Receiver {
 public:
  explicit Switch(uint64_t seed) : seed_(seed) {}

  /// `port` is one way to `host`; several share its flows. The port outlives the switch.
  void add_way(uint32_t host, Port& port) {
    if (host >= ways_.size()) ways_.resize(host + 1);
    ways_[host].push_back(&port);
  }
  void receive(FramePtr frame) override {
    const auto& ways = ways_.at(destination_of(*frame));
    const std::size_t way = ways.size() == 1 ? 0 : hash(*frame) % ways.size();
    ways[way]->receive(std::move(frame));
  }

 private:
  uint64_t hash(const FabricFrame& frame) const {
    constexpr std::size_t kIpSource = 14 + 12, kUdp = 14 + 20;
    const std::byte* p = frame.storage.data();
    Random mix(seed_ ^ load_be64(p + kIpSource) ^ uint64_t{load_be16(p + kUdp)} << 16);
    return mix.next();
  }

  uint64_t seed_;
  std::vector<std::vector<Port*>> ways_;
};

}  // namespace uroce::sim
