// A scenario: topology, links, traffic and settings of the engines. It determines a run.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

#include <uroce/congestion.h>
#include <uroce/types.h>

#include "base/time.h"
#include "faults/rule_set.h"
#include "tests/sim/impairments.h"
#include "tests/sim/port.h"

namespace uroce::sim {

enum class Topology : uint8_t {
  pair,    ///< two hosts at one switch
  incast,  ///< as many hosts as flows, and the one that all of them write to, at one switch
  paths,   ///< two hosts, each at a switch, and several links between the switches
};

inline constexpr std::array<std::pair<std::string_view, Topology>, 3> kTopologyNames{
    {{"pair", Topology::pair}, {"incast", Topology::incast}, {"paths", Topology::paths}}};
inline constexpr std::array<std::pair<std::string_view, Mtu>, 5> kMtuNames{{{"256", Mtu::mtu256},
                                                                            {"512", Mtu::mtu512},
                                                                            {"1024", Mtu::mtu1024},
                                                                            {"2048", Mtu::mtu2048},
                                                                            {"4096", Mtu::mtu4096}}};

struct Scenario {
  Topology topology = Topology::pair;
  uint32_t flows = 1;              ///< queue pairs that carry traffic, 1..4096
  double gbps = 100;               ///< of every link
  Nanos rtt{12'000};               ///< propagation there and back on the shortest path; serialization comes on top
  uint32_t paths = 4;              ///< between the switches of Topology::paths
  Nanos path_skew{1'000};          ///< what each path takes longer than the one before, one way
  uint64_t queue_bytes = 4 << 20;  ///< of each output port of a switch
  uint32_t tx_slots = 1024;        ///< frames in a host's transmit ring
  EcnMarking ecn{};                ///< at the switches' output ports
  faults::Rules faults{};          ///< host N is device hostN
  ImpairmentRates impairments{};   ///< on the links from a switch to a host, both directions of a flow

  bool read = false;        ///< RDMA READs instead of WRITEs
  bool one_buffer = false;  ///< all READs of a flow go to the same memory, as perftest has it
  uint32_t message_bytes = 65536;
  uint32_t depth = 16;  ///< messages that a flow has posted at any time
  Mtu mtu = Mtu::mtu4096;

  Retransmission retransmission = Retransmission::automatic;
  CongestionSettings congestion{};  ///< without a line rate, that of the links is taken
  uint32_t window_packets = 256;
  uint32_t read_window_packets = 1u << 22;
  uint32_t udp_source_ports = 1;
  uint32_t timeout = 8;  ///< of the queue pairs, 4.096 us * 2^timeout

  Nanos start{100'000};        ///< traffic begins, connections have been made before
  Nanos duration{20'000'000};  ///< of the traffic
  Nanos warm_up{1'000'000};    ///< its beginning, which goodput and latency leave out
  Nanos window{1'000'000};     ///< over which fairness and losses are told
  uint64_t seed = 1;

  Picos at(Nanos since_start) const { return start + since_start; }
};

}  // namespace uroce::sim
