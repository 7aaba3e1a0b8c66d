#include "nvmf/queue_link.h"

#include <cerrno>
#include <chrono>
#include <utility>

namespace uroce::nvmf {

namespace {

constexpr Nanos kProbeEvery = std::chrono::seconds(30);

}  // namespace

Result<QueueLink> QueueLink::open(Device& device, uint32_t slots, uint32_t exchanges, const std::byte* buffers) {
  QueueMemory memory(slots);
  if (memory.memory().empty()) return fail(ENOMEM, "no memory for the receives of a queue");
  auto region = device.pd.register_memory(memory.memory().data(), memory.memory().size(), Access::local_write);
  if (!region) return std::unexpected(region.error());
  auto cq = device.context.create_cq(slots + 2 * exchanges + 1);
  if (!cq) return std::unexpected(cq.error());
  // A WRITE and a SEND for each, and a probe.
  const QpInit init{.cap = {.max_send_wr = 2 * exchanges + 1,
                            .max_recv_wr = slots,
                            .max_send_sge = 1,
                            .max_recv_sge = 2,
                            .max_inline_data = sizeof(nvme::Response)},
                    .engine = device.engine};
  auto qp = device.context.create_qp(device.pd, *cq, *cq, init);
  if (!qp) return std::unexpected(qp.error());
  return QueueLink(device, slots, buffers, std::move(memory), std::move(*region), std::move(*cq), std::move(*qp));
}

Result<void> QueueLink::post_receives() {
  for (uint32_t slot = 0; slot < slots_; ++slot) {
    if (!post_receive(static_cast<uint16_t>(slot))) return fail(EIO, "cannot post the receives of a queue");
  }
  return {};
}

bool QueueLink::read(const Exchange& exchange, std::span<std::byte> into) {
  const Sge part = sge(into);
  const SendRequest read{.wr_id = wr_id(Work::read, exchange.index),
                         .opcode = WrOpcode::rdma_read,
                         .flags = SendFlag::signaled,
                         .sges = {&part, 1},
                         .remote_addr = exchange.transfer.address,
                         .rkey = exchange.transfer.key};
  return qp_->post_send(read) == 0;
}

/// A host may do without keep alive, or choose a timeout of weeks. An RDMA WRITE of no bytes needs no key (IBTA vol. 1,
/// C9-88), and the host's device acknowledges it, or the transport gives up.
bool QueueLink::probe(Nanos now) {
  if (now < next_probe_ || std::exchange(probing_, true)) return true;
  next_probe_ = now + kProbeEvery;
  const SendRequest write{.wr_id = wr_id(Work::probe, 0), .opcode = WrOpcode::rdma_write, .flags = SendFlag::signaled};
  return qp_->post_send(write) == 0;
}

}  // namespace uroce::nvmf
