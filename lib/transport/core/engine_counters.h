// The statistics of one engine. Its thread writes them; any thread reads them. Packets and bytes are in
// engine/traffic.h.
#pragma once

#include <array>
#include <cstddef>

#include <uroce/types.h>

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
  Counter cnps_ignored;                  ///< too many, or for a QP without congestion control
  Counter path_changes;                  ///< times that a QP took another UDP source port
  Counter paced_waits;                   ///< times that a QP waited for its turn
  Counter doorbells_bad;                 ///< doorbell tokens that named no QP of this engine
  Counter raw_sent;                      ///< frames of raw packet QPs
  Counter raw_refused;                   ///< those that were not sent, because they may carry RoCE
  Counter raw_received;                  ///< frames that a rule gave to a raw packet QP, with the copies for sniffers
  Counter raw_unclaimed;                 ///< sent to this device itself, where no rule takes it
  Counter guesses;                       ///< frames that name what their sender should not know (base/guess_table.h)
  std::array<Counter, 24> errors;        ///< error_completions, by WcStatus
  std::array<Counter, 4> naks_sent_for;  ///< naks_sent, by wire::NakCode; there is no RD
  std::array<Counter, 4> naks_received_for;

  void add_error(WcStatus status) {
    error_completions.add();
    add_to(errors, static_cast<std::size_t>(status));
  }
  void add_nak_sent(wire::NakCode code) {
    naks_sent.add();
    add_to(naks_sent_for, static_cast<std::size_t>(code));
  }
  void add_nak_received(wire::NakCode code) {
    naks_received.add();
    add_to(naks_received_for, static_cast<std::size_t>(code));
  }

 private:
  /// A number that no name stands for, which only the wire can bring, is in the sum alone.
  static void add_to(auto& counters, std::size_t index) {
    if (index < counters.size()) counters[index].add();
  }
};

}  // namespace uroce::transport
