// Queue pairs from make_qp() with the rings that they need, and what an engine would lend them: no engine.
#pragma once

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "tests/support/test_queues.h"
#include "transport/core/context.h"
#include "transport/datagram/flow_table.h"
#include "transport/datagram/multicast.h"
#include "transport/qp/qp.h"
#include "transport/qp/xrc.h"

namespace uroce::test {

/// Remembers the asynchronous events.
class AsyncEvents : public transport::EngineEvents {
 public:
  void on_completion_event(uint32_t) override {}
  void on_async_event(AsyncEventType type, uint32_t object) override { seen.emplace_back(type, object); }
  void on_wrong_key(const Gid&, uint32_t) override {}
  void on_end(const transport::QpEnd&) override {}
  std::vector<std::pair<AsyncEventType, uint32_t>> seen;
};

/// A Context with all that it refers to.
struct BareContext {
  transport::EngineConfig config{.max_qps = 16};
  transport::EngineCounters counters;
  memory::RegionTable regions{16, 1};
  AsyncEvents events;
  transport::MulticastGroups groups;
  transport::XrcSrqTable xrc_srqs;
  transport::FlowTable flows;
  transport::Context ctx{config, counters, regions, events, nullptr, groups, xrc_srqs, flows};
};

class BareQp {
 public:
  static constexpr uint32_t kEntries = 8;

  explicit BareQp(uint32_t qpn, QpType type = QpType::rc, uint32_t cq_entries = 64)
      : cq(qpn, cq_entries),
        sq_(kEntries, queues::send_stride(1, 0)),
        rq_(kEntries, queues::recv_stride(1)),
        sends_(sq_.place),
        receives_(rq_.place) {
    transport::QpSpec spec;
    spec.qpn = qpn;
    spec.type = type;
    spec.pd = 1;
    spec.cap = {.max_send_wr = kEntries, .max_recv_wr = kEntries, .max_send_sge = 1, .max_recv_sge = 1};
    spec.sq = sq_.place;
    spec.rq = rq_.place;
    spec.send_cq = spec.recv_cq = &cq.writer();
    auto made = transport::make_qp(spec);
    require(made.has_value(), "make_qp failed");
    qp_ = std::move(*made);
  }
  transport::Qp& operator*() { return *qp_; }
  transport::Qp* operator->() { return qp_.get(); }

  /// A SEND without payload.
  void post_send(uint64_t wr_id) {
    require(sends_.room() != 0, "the send ring is full");
    queues::SendWqe wqe{};
    wqe.wr_id = wr_id;
    wqe.flags = static_cast<uint16_t>(SendFlags(SendFlag::signaled).bits());
    wqe.opcode = static_cast<uint8_t>(WrOpcode::send);
    std::memcpy(sends_.slot(), &wqe, sizeof wqe);
    sends_.publish(1);
  }
  void post_recv(uint64_t wr_id) { require(put_recv(receives_, wr_id, {}), "the receive ring is full"); }

  TestCq cq;

 private:
  OwnedRing sq_;
  OwnedRing rq_;
  queues::RingProducer sends_;
  queues::RingProducer receives_;
  transport::QpPtr qp_;
};

}  // namespace uroce::test
