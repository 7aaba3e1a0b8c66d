// The plan of a run of the leaf-spine fabric, which determines all that happens.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include <uroce/congestion.h>
#include <uroce/types.h>

#include "base/time.h"
#include "tests/sim/leaf_spine/shared_switch.h"

namespace uroce::sim {

enum class TrafficMix : uint8_t { web_search, storage, incast, all_to_all };
enum class Recovery : uint8_t { go_back_n, selective, onlies };

inline constexpr std::array<std::pair<std::string_view, TrafficMix>, 4> kTrafficNames{
    {{"websearch", TrafficMix::web_search},
     {"storage", TrafficMix::storage},
     {"incast", TrafficMix::incast},
     {"all-to-all", TrafficMix::all_to_all}}};
inline constexpr std::array<std::pair<std::string_view, Recovery>, 3> kRecoveryNames{
    {{"go-back-n", Recovery::go_back_n}, {"selective", Recovery::selective}, {"onlies", Recovery::onlies}}};

struct FabricPlan {
  // Topology: each leaf has a link to each spine.
  uint32_t hosts = 1000;
  uint32_t hosts_per_leaf = 20;
  uint32_t spines = 10;
  double host_gbps = 100;
  double spine_gbps = 200;
  Nanos link_delay{1'000};
  SwitchOptions switches{.buffer = {}, .ecn = {.kmin = 100'000, .kmax = 400'000, .pmax = 0.2}};
  double loss = 0;           ///< chance of each packet on each link
  uint32_t failures = 0;     ///< links between leaf and spine that go down
  Nanos fail_at{0};          ///< after the beginning of the traffic
  Nanos reroute{1'000'000};  ///< from then until the switches know
  uint32_t slow_links = 0;   ///< links between leaf and spine that have slow_gbps
  double slow_gbps = 50;
  uint32_t tx_slots = 1024;  ///< frames in a host's transmit ring

  // Traffic
  TrafficMix traffic = TrafficMix::web_search;
  double load = 0.5;               ///< share of the host links' rate, payload alone
  uint32_t peers = 32;             ///< to which a host sends
  uint32_t degree = 32;            ///< senders of an incast, hosts of an all-to-all
  uint64_t flow_bytes = 64 << 10;  ///< of incast and all-to-all
  uint32_t qps_per_peer = 2;
  Nanos start{100'000};  ///< connections are made before
  Nanos duration{10'000'000};
  Nanos drain{10'000'000};  ///< most that flows may take longer

  // Engines
  CongestionSettings congestion{};
  Recovery recovery = Recovery::onlies;
  uint32_t window_packets = 256;
  uint32_t udp_source_ports = 1;
  uint32_t timeout = 8;  ///< of the queue pairs, 4.096 us * 2^timeout
  Mtu mtu = Mtu::mtu4096;
  uint64_t seed = 1;

  uint32_t leaves() const { return (hosts + hosts_per_leaf - 1) / hosts_per_leaf; }
  uint32_t leaf_of(uint32_t host) const { return host / hosts_per_leaf; }
};

/// Says why there is no such fabric; empty when there is.
std::string fault_of(const FabricPlan& plan);

}  // namespace uroce::sim
