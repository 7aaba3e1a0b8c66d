#include "tests/support/test_queues.h"

#include <algorithm>
#include <cstring>

namespace uroce::test {

TestCq::TestCq(uint32_t id, uint32_t entries)
    : ring_(entries, sizeof(queues::Cqe)), writer_(id, header_, ring_.place), consumer_(ring_.place) {}

std::optional<queues::Cqe> TestCq::poll() {
  if (consumer_.available() == 0) return std::nullopt;
  queues::Cqe cqe;
  std::memcpy(&cqe, consumer_.slot(), sizeof cqe);
  consumer_.consume(1);
  return cqe;
}

bool put_recv(queues::RingProducer& ring, uint64_t wr_id, std::span<const Sge> sges) {
  if (ring.room() == 0) return false;
  queues::RecvWqe wqe{};
  wqe.wr_id = wr_id;
  wqe.num_sge = static_cast<uint32_t>(sges.size());
  std::memcpy(ring.slot(), &wqe, sizeof wqe);
  if (!sges.empty()) std::memcpy(ring.slot() + sizeof wqe, sges.data(), sges.size_bytes());
  ring.publish(1);
  return true;
}

TestSrq::TestSrq(uint32_t id, uint32_t entries, uint32_t max_sge, memory::PdId pd, uint32_t xrc_domain, TestCq* cq)
    : ring_(entries, queues::recv_stride(max_sge)), producer_(ring_.place) {
  srq_.id = id;
  srq_.pd = pd;
  srq_.max_sge = max_sge;
  srq_.header = header_;
  srq_.ring = queues::RingConsumer(ring_.place);
  srq_.xrc_domain = xrc_domain;
  if (cq == nullptr) return;
  srq_.cq = &cq->writer();
  srq_.held = {reinterpret_cast<queues::HeldRecv*>(held_memory_.get()), queues::kHeldOfXrcQueue};
}

std::optional<uint64_t> TestSrq::held_by(uint32_t qpn) const {
  for (const queues::HeldRecv& held : srq_.held) {
    if (held.held.load() != 0 && held.qpn.load() == qpn) return held.wr_id.load();
  }
  return std::nullopt;
}

std::size_t TestSrq::held() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(srq_.held, [](const queues::HeldRecv& held) { return held.held.load() != 0; }));
}

}  // namespace uroce::test
