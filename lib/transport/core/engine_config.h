// The parameters with which an engine starts.
#pragma once

#include <cstdint>
#include <vector>

#include <uroce/engine_settings.h>
#include <uroce/types.h>

#include "base/peer_list.h"
#include "base/secret.h"
#include "base/time.h"

namespace uroce::transport {

class Tape;

struct EngineConfig {
  uint32_t index = 0;             ///< 0..(2^index_bits - 1), also the low bits of this engine's QPNs
  uint32_t index_bits = 0;        ///< low QPN bits that name the engine, 0..6
  uint32_t max_qps = 16384;       ///< QP slots of this engine, a power of two, at most 2^(24 - index_bits)
  uint32_t burst = 32;            ///< frames built per call of the sink
  uint32_t window_packets = 256;  ///< most unacknowledged packets of one QP, at most 1024
  uint32_t long_windows = 2048;   ///< QPs that may have more than 16 packets in flight at once; others wait with 16
  EngineSettings settings{};
  /// How late a peer's first answer after a pause may be without a loss: a thread that shares its processor waits for
  /// it.
  Nanos peer_delay{0};
  Secret seed = 1;  ///< of the numbers that peers must not guess
  uint16_t pkey = 0xffff;
  bool plain_path = true;  ///< false: plain packets and requests go the way of all others; for tests that compare both
  bool check_icrc = true;  ///< false only under a fuzzer, whose frames have no valid ICRC
  /// READ responses that a QP may have outstanding before it asks for the next READ, packets: what the port's receive
  /// buffer holds.
  uint32_t read_window_packets = 1u << 22;
  // The port has these. Only datagrams and raw frames need them: connected QPs have a route.
  Mtu port_mtu = Mtu::mtu4096;   ///< largest datagram
  uint32_t ethernet_mtu = 1500;  ///< largest raw frame behind its Ethernet header and tag, bytes
  EthAddr mac{};                 ///< raw frames to this address stay here
  uint16_t vlan = 0;             ///< id of its frames, 0: untagged
  std::vector<Gid> gids{};       ///< its addresses at first
  PeerList peers{};              ///< from which datagrams are taken; routes lead to these alone
  Tape* tape = nullptr;          ///< records or replays the engine, and outlives it; nullptr: nothing does
};

}  // namespace uroce::transport
