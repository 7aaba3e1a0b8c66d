#include "rxe_flush.h"

#include <cstddef>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <string>

#include <rdma/rdma_user_rxe.h>

namespace interop {

namespace {

constexpr std::uint32_t kOpcode = 14;                 // IB_UVERBS_WR_FLUSH, which older headers lack
constexpr std::uint64_t kMark = 0x5EA1ED'F1005'1234;  // no other word of the queues is this

// The variant of rxe_send_wr::wr for a FLUSH, which older headers lack.
struct FlushVariant {
  std::uint64_t address;
  std::uint32_t length;
  std::uint32_t rkey;
  std::uint8_t type;
  std::uint8_t level;
};
static_assert(sizeof(FlushVariant) <= sizeof(rxe_send_wr::wr));

// The work request that is marked, in the queues that this process shares with the kernel.
rxe_send_wqe& marked() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    void* begin = nullptr;
    void* end = nullptr;
    if (line.find("uverbs") == std::string::npos) continue;
    if (std::sscanf(line.c_str(), "%p-%p", &begin, &end) != 2) continue;
    auto* const last = static_cast<std::byte*>(end) - sizeof(rxe_send_wqe);
    for (auto* at = static_cast<std::byte*>(begin); at <= last; at += sizeof kMark) {
      auto* const wqe = reinterpret_cast<rxe_send_wqe*>(at);
      if (wqe->wr.wr_id == kMark) return *wqe;
    }
  }
  throw std::runtime_error("rxe's send queue is not where /proc/self/maps has queues");
}

}  // namespace

// The provider writes a WRITE into the queue. It becomes a FLUSH before ibv_wr_complete() shows it to the kernel.
void post_rxe_flush(ibv_qp_ex* qp, const Flush& flush) {
  ibv_wr_start(qp);
  qp->wr_id = kMark;
  qp->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_rdma_write(qp, flush.rkey, flush.address);
  try {
    rxe_send_wqe& wqe = marked();
    const FlushVariant variant{
        .address = flush.address, .length = flush.length, .rkey = flush.rkey, .type = flush.type, .level = flush.level};
    wqe.wr.wr_id = flush.wr_id;
    wqe.wr.opcode = kOpcode;
    std::memcpy(&wqe.wr.wr, &variant, sizeof variant);
    wqe.dma.length = wqe.dma.resid = flush.length;
  } catch (...) {
    ibv_wr_abort(qp);
    throw;
  }
  const int code = ibv_wr_complete(qp);
  if (code != 0) throw std::runtime_error(std::string("ibv_wr_complete: ") + std::strerror(code));
}

}  // namespace interop
