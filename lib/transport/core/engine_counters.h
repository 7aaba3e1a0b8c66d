// The statistics of one engine. Its thread writes them; any thread reads them. Packets and bytes are in
// engine/traffic.h.
#pragma once

#include <array>

#include "base/counter.h"
#include "wire/packet.h"

namespace uroce::transport {

struct EngineCounters {
  std::array<Counter, wire::kDropCount> drops;  ///< received frames dropped, by wire::Drop
  Counter acks_sent, naks_sent, rnr_naks_sent;
  Counter acks_received, naks_received, rnr_naks_received;
  Counter timeouts, retransmitted_packets;
  Counter probes, spurious_retransmissions;
  Counter hellos_sent, hellos_received, sacks_sent, sacks_received;
  Counter parked_packets;   ///< frames put into a reorder buffer
  Counter windows_refused;  ///< times that a QP was left with a window of a few packets (EngineConfig::long_windows)
  Counter send_completions, recv_completions, error_completions;
  Counter completions_dropped;  ///< for full completion queues that ignore overruns
  Counter ecn_marked_received, cnps_sent, cnps_received;
  Counter cnps_ignored;   ///< too many, or for a QP without congestion control
  Counter paced_waits;    ///< times that a QP waited for its turn
  Counter doorbells_bad;  ///< doorbell tokens that named no QP of this engine
  Counter raw_sent;       ///< frames of raw packet QPs
  Counter raw_refused;    ///< those that were not sent, because they may carry RoCE
  Counter raw_received;   ///< frames that a rule gave to a raw packet QP, with the copies for sniffers
  Counter raw_unclaimed;  ///< sent to this device itself, where no rule takes it
  Counter guesses;        ///< frames that name what their sender should not know (base/guess_table.h)
};

}  // namespace uroce::transport
