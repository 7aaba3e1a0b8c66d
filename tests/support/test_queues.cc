#include "tests/support/test_queues.h"

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
  if (cq != nullptr) srq_.cq = &cq->writer();
}

}  // namespace uroce::test
