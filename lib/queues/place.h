// Where the parts of each object's queues are in its piece of shared memory. Daemon and application both compute it
// here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "queues/doorbell.h"
#include "queues/layout.h"
#include "queues/ring.h"

namespace uroce::queues {

/// A queue pair: the doorbell flag, the send ring, and the receive ring or, with an SRQ, the receive that it holds.
/// `cap` holds powers of two.
struct QpPlace {
  DoorbellFlag* doorbell = nullptr;
  RingPlace sq{};
  RingPlace rq{};                 ///< entries 0 with an SRQ
  HeldRecv* held_recv = nullptr;  ///< null without an SRQ

  static std::size_t bytes(const QpCap& cap, bool with_srq) {
    return sizeof(DoorbellFlag) + ring_bytes(cap.max_send_wr, send_stride(cap.max_send_sge, cap.max_inline_data)) +
           (with_srq ? sizeof(HeldRecv) : ring_bytes(cap.max_recv_wr, recv_stride(cap.max_recv_sge)));
  }
  static QpPlace at(std::byte* memory, const QpCap& cap, bool with_srq) {
    QpPlace place;
    place.doorbell = reinterpret_cast<DoorbellFlag*>(memory);
    memory += sizeof(DoorbellFlag);
    place.sq = RingPlace::at(memory, cap.max_send_wr, send_stride(cap.max_send_sge, cap.max_inline_data));
    memory += ring_bytes(place.sq.entries, place.sq.stride);
    if (with_srq) {
      place.held_recv = reinterpret_cast<HeldRecv*>(memory);
    } else {
      place.rq = RingPlace::at(memory, cap.max_recv_wr, recv_stride(cap.max_recv_sge));
    }
    return place;
  }
};

/// A completion queue: one ring per engine, so that each ring has one producer. The header is in another piece of
/// memory, because a resize replaces the rings and keeps the header.
struct CqPlace {
  CqHeader* header = nullptr;
  std::byte* rings = nullptr;
  uint32_t entries = 0;  ///< of each ring, a power of two

  static std::size_t ring_bytes_of(uint32_t entries, uint32_t engines) {
    return engines * ring_bytes(entries, sizeof(Cqe));
  }
  static CqPlace at(std::byte* header, std::byte* rings, uint32_t entries) {
    return {reinterpret_cast<CqHeader*>(header), rings, entries};
  }
  RingPlace ring(uint32_t engine) const {
    return RingPlace::at(rings + engine * ring_bytes(entries, sizeof(Cqe)), entries, sizeof(Cqe));
  }
};

/// A shared receive queue: the header, then its ring, and of an XRC queue the receives that targets hold.
struct SrqPlace {
  SrqHeader* header = nullptr;
  RingPlace ring{};
  std::span<HeldRecv> held{};  ///< kHeldOfXrcQueue, or none

  static std::size_t bytes(uint32_t entries, uint32_t max_sge, bool xrc) {
    return sizeof(SrqHeader) + ring_bytes(entries, recv_stride(max_sge)) +
           (xrc ? std::size_t{kHeldOfXrcQueue} * sizeof(HeldRecv) : 0);
  }
  static SrqPlace at(std::byte* memory, uint32_t entries, uint32_t max_sge, bool xrc) {
    SrqPlace place;
    place.header = reinterpret_cast<SrqHeader*>(memory);
    memory += sizeof(SrqHeader);
    place.ring = RingPlace::at(memory, entries, recv_stride(max_sge));
    memory += ring_bytes(entries, recv_stride(max_sge));
    if (xrc) place.held = {reinterpret_cast<HeldRecv*>(memory), kHeldOfXrcQueue};
    return place;
  }
};

/// A session's doorbells: one ring per engine.
struct DoorbellPlace {
  static std::size_t bytes(uint32_t entries, uint32_t engines) { return engines * doorbell_bytes(entries); }
  static std::byte* at(std::byte* memory, uint32_t entries, uint32_t engine) {
    return memory + engine * doorbell_bytes(entries);
  }
};

}  // namespace uroce::queues
