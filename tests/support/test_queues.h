// An application's ends of the shared-memory queues, for tests: they write the rings exactly as a program would.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include <uroce/verbs/work_requests.h>

#include "queues/doorbell.h"
#include "queues/ring.h"
#include "tests/support/memory.h"
#include "transport/qp/cq_writer.h"
#include "transport/qp/srq.h"

namespace uroce::test {

/// One ring with its memory.
struct OwnedRing {
  OwnedRing() = default;
  OwnedRing(uint32_t entries, uint32_t stride)
      : memory(make_aligned(queues::ring_bytes(entries, stride))),
        place(queues::RingPlace::at(memory.get(), entries, stride)) {}
  AlignedBytes memory;
  queues::RingPlace place{};
};

/// A completion queue of one engine.
class TestCq {
 public:
  TestCq(uint32_t id, uint32_t entries);
  transport::CqWriter& writer() { return writer_; }
  uint32_t id() const { return writer_.id(); }
  /// Another engine writes from now on.
  void go_on(transport::EngineEvents& events) {
    writer_ = transport::CqWriter(id(), header_, ring_.place, transport::CqOverrun::fails, writer_.position(events));
  }
  std::optional<queues::Cqe> poll();
  void arm(queues::Arm arm) { header_->arm.store(static_cast<uint32_t>(arm)); }
  queues::RingPlace place() const { return ring_.place; }

 private:
  AlignedBytes header_memory_ = make_aligned(sizeof(queues::CqHeader));
  queues::CqHeader* header_ = reinterpret_cast<queues::CqHeader*>(header_memory_.get());
  OwnedRing ring_;
  transport::CqWriter writer_;
  queues::RingConsumer consumer_;
};

/// Writes one receive into a ring's next slot and publishes it. False when there is no room.
bool put_recv(queues::RingProducer& ring, uint64_t wr_id, std::span<const Sge> sges);

/// A shared receive queue of one engine.
class TestSrq {
 public:
  /// `cq`: for an XRC queue in `xrc_domain`.
  TestSrq(uint32_t id, uint32_t entries, uint32_t max_sge, memory::PdId pd, uint32_t xrc_domain = 0,
          TestCq* cq = nullptr);
  transport::Srq& srq() { return srq_; }
  bool post_recv(const RecvRequest& request) { return put_recv(producer_, request.wr_id, request.sges); }
  queues::RingPlace ring() const { return ring_.place; }
  void set_limit(uint32_t limit) { header_->limit.store(limit); }
  /// Of an XRC queue: the receive that shared memory says target `qpn` holds.
  std::optional<uint64_t> held_by(uint32_t qpn) const;
  /// How many receives shared memory says that targets hold.
  std::size_t held() const;

 private:
  AlignedBytes held_memory_ = make_aligned(sizeof(queues::HeldRecv) * queues::kHeldOfXrcQueue);
  AlignedBytes header_memory_ = make_aligned(sizeof(queues::SrqHeader));
  queues::SrqHeader* header_ = reinterpret_cast<queues::SrqHeader*>(header_memory_.get());
  OwnedRing ring_;
  queues::RingProducer producer_;
  transport::Srq srq_;
};

}  // namespace uroce::test
