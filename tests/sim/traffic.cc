#include "tests/sim/traffic.h"

#include <algorithm>
#include <bit>

namespace uroce::sim {

using test::ConnectOptions;
using test::TestQp;

Traffic::Traffic(Fabric& fabric, const Scenario& scenario, Host& host, Host& to)
    : fabric_(fabric),
      scenario_(scenario),
      host_(host),
      to_(to),
      cq_(host.endpoint().make_cq(std::bit_ceil(scenario.flows * scenario.depth + 1))),
      peer_cq_(to.endpoint().make_cq(std::bit_ceil(scenario.flows + 1))),
      random_(host.endpoint().options().seed) {
  host.set_application(*this);
  fabric.events().schedule(scenario.at(Nanos(0)), *this);
}

uint64_t Traffic::places() const {
  constexpr uint64_t kMostBytes = 64 << 20;
  return std::clamp<uint64_t>(kMostBytes / scenario_.message_bytes, 1,
                              scenario_.read && !scenario_.one_buffer ? scenario_.depth : 1);
}

void Traffic::add_flow(uint32_t number) {
  test::TestEndpoint& near = host_.endpoint();
  test::TestEndpoint& far = to_.endpoint();
  constexpr AccessFlags kAccess = AccessFlags(Access::local_write) | Access::remote_write | Access::remote_read;
  TrafficFlow& flow = *flows_.emplace_back(std::make_unique<TrafficFlow>(scenario_));
  // Payload is not compared, so all flows of a host can share the memory.
  const std::size_t bytes = std::size_t{scenario_.message_bytes} * places();
  flow.local = flows_.size() == 1 ? &near.make_region(bytes, kAccess) : flows_.front()->local;
  flow.remote = &far.make_region(scenario_.message_bytes, kAccess);
  TestQp::Options options;
  options.cap.max_send_wr = scenario_.depth;
  options.cap.max_recv_wr = 1;
  options.qpn = 2 + 2 * number;
  options.send_cq = options.recv_cq = &cq_;
  flow.qp = &near.make_qp(options);
  options.qpn = 3 + 2 * number;
  options.send_cq = options.recv_cq = &peer_cq_;
  TestQp& peer = far.make_qp(options);
  ConnectOptions there;
  there.dest_qpn = peer.qpn();
  there.sq_psn = static_cast<uint32_t>(random_.below(1 << 24));
  there.rq_psn = static_cast<uint32_t>(random_.below(1 << 24));
  there.mtu = scenario_.mtu;
  there.timeout = static_cast<uint8_t>(scenario_.timeout);
  ConnectOptions back = there;
  back.dest_qpn = flow.qp->qpn();
  std::swap(back.sq_psn, back.rq_psn);
  flow.qp->connect(there, near.route_to(far));
  peer.connect(back, far.route_to(near));
  fabric_.set_meter(scenario_.read ? flow.qp->qpn() : peer.qpn(), flow.meter);
}

void Traffic::post(TrafficFlow& flow, uint64_t number, Nanos now) {
  const uint64_t place = flow.next_place++ % places();
  const Sge sge = flow.local->sge(place * scenario_.message_bytes, scenario_.message_bytes);
  SendRequest request;
  request.wr_id = number;
  request.opcode = scenario_.read ? WrOpcode::rdma_read : WrOpcode::rdma_write;
  request.flags = SendFlag::signaled;
  request.sges = {&sge, 1};
  request.remote_addr = flow.remote->va();
  request.rkey = flow.remote->key();
  test::require(flow.qp->post_send(request), "a send queue is full though less than its depth is outstanding");
  flow.posted.push_back(now);
}

bool Traffic::work(Nanos now) {
  bool any = false;
  while (const auto cqe = cq_.poll()) {
    any = true;
    TrafficFlow& flow = *flows_[cqe->wr_id];
    if (static_cast<WcStatus>(cqe->status) != WcStatus::success) {
      if (!flow.failure) flow.failure = static_cast<WcStatus>(cqe->status);
      continue;
    }
    if (fabric_.events().now() >= scenario_.at(scenario_.warm_up)) {
      ++flow.completed;
      latencies_.push_back(now - flow.posted.front());
    }
    flow.posted.pop_front();
    post(flow, cqe->wr_id, now);
  }
  return any;
}

void Traffic::on_event(uint64_t) {
  const Nanos now = fabric_.events().now_nanos();
  for (std::size_t i = 0; i < flows_.size(); ++i) {
    for (uint32_t n = 0; n < scenario_.depth; ++n) post(*flows_[i], i, now);
  }
  host_.run();
}

}  // namespace uroce::sim
