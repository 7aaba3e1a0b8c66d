// The engine's settings, counters, memory and frame builder, as the parts of the transport use them while it handles a
// frame, a timer or a burst.
//
// Nothing here leads to another queue pair, to the run queue or to a timer. Only the engine changes those, by the
// outcomes that the parts return (qp/outcome.h).
#pragma once

#include <algorithm>
#include <array>
#include <bit>

#include "base/guess_table.h"
#include "base/secret.h"
#include "base/time.h"
#include "memory/region_table.h"
#include "transport/core/block_pool.h"
#include "transport/core/engine_config.h"
#include "transport/core/engine_counters.h"
#include "transport/core/frame_builder.h"
#include "transport/core/frame_pool.h"
#include "transport/core/frame_template.h"
#include "transport/core/hand.h"
#include "transport/core/seam.h"
#include "wire/header_prediction.h"

namespace uroce::wire {
class ReceiveSpread;
}

namespace uroce::transport {

class AddressHandleTable;
class FlowTable;
class MulticastGroups;
class XrcSrqTable;

/// The plain packet that is likely to come next, and its queue pair.
struct PredictedPacket {
  wire::HeaderPrediction headers;
  // Where something is predicted:
  Qp* qp = nullptr;        ///< one that was admitted for such a packet
  QpState state{};         ///< its state then
  bool datagrams = false;  ///< the packets are UD's
};

struct Context {
  static constexpr std::size_t kWindowBytes = 8;  ///< of `windows` for each packet
  static constexpr uint32_t kLeastWindow = 16;

  Context(const EngineConfig& config_, EngineCounters& counters_, memory::RegionTable& regions_, EngineEvents& events_,
          const AddressHandleTable* handles_, const MulticastGroups& groups_, const XrcSrqTable& xrc_srqs_,
          const FlowTable& flows_)
      : config(config_),
        counters(counters_),
        regions(regions_),
        events(events_),
        handles(handles_),
        groups(groups_),
        xrc_srqs(xrc_srqs_),
        flows(flows_),
        windows(config_.long_windows, kWindowBytes * std::bit_ceil(std::max(config_.window_packets, kLeastWindow))),
        frames(config_.settings.parking_frames, config_.seed.plain_seed("frames")),
        epochs(config_.seed.derive("epochs")),
        builder(config_.burst, std::bit_floor(config_.settings.udp_source_ports)) {}

  /// A QP, its route or its attributes are about to change, or it goes, by other means than packets.
  void forget_headers() {
    for (FrameTemplate* headers : {&request_headers, &response_headers, &ack_headers}) headers->begin(nullptr, 0);
    for (PredictedPacket& packet : predicted) packet.headers.forget();
  }
  void count_drop(wire::Drop reason) { counters.drops[static_cast<std::size_t>(reason)].add(); }

  const EngineConfig& config;
  EngineCounters& counters;
  memory::RegionTable& regions;
  EngineEvents& events;
  const AddressHandleTable* handles;  ///< nullptr: no datagram is sent
  const MulticastGroups& groups;
  const XrcSrqTable& xrc_srqs;
  const FlowTable& flows;
  Hand hand;
  Nanos now{0};                                 ///< of the burst
  const wire::ReceiveSpread* spread = nullptr;  ///< Engine::know_spread()
  bool whole_writes = false;                    ///< no WRITE begins as Onlies (SendSlot::as_onlies)
  bool alone = false;                           ///< no QP but the one whose turn it is has anything to send
  BlockPool windows;                            ///< for SendTimes
  FramePool frames;
  std::array<std::byte, FramePool::kFrameBytes> parked{};  ///< for wire::in_one_piece()
  SecretStream epochs;
  FrameBuilder builder;
  // Of the QP that sent such frames last.
  FrameTemplate request_headers;
  FrameTemplate response_headers;  ///< to READs and atomics
  FrameTemplate ack_headers;
  static constexpr uint32_t kPredictedBits = 5;
  std::array<PredictedPacket, 1 << kPredictedBits> predicted;  ///< by a hash of opcode and QPN
  GuessTable guesses;
};

}  // namespace uroce::transport
