#include "pmd_glue/kif/sender.h"

#include <rte_mbuf.h>

namespace uroce::glue::kif {

namespace {

std::span<const std::byte> head_of(const rte_mbuf* mbuf) {
  return {rte_pktmbuf_mtod(mbuf, const std::byte*), mbuf->data_len};
}

}  // namespace

uint16_t Sender::describe(std::size_t index, msghdr&, std::span<rte_mbuf* const> mbufs, bool joins) {
  Message& message = messages_[index];
  add_part() = {&message.vnet, sizeof message.vnet};
  iovec& headers = add_part();
  FrameRun run(head_of(mbufs[0]), mbufs[0]->pkt_len);
  add_bytes(mbufs[0], run.header_bytes());
  if (joins) {
    for (const rte_mbuf* next : mbufs.subspan(1)) {
      if (!run.add(head_of(next), next->pkt_len)) break;
      add_bytes(next, run.header_bytes());
    }
  }
  message.vnet = {};
  if (run.segments() > 1) {
    message.vnet = run.finish(message.headers.data());
    headers = {message.headers.data(), run.header_bytes()};
  } else {
    headers = {rte_pktmbuf_mtod(mbufs[0], void*), run.header_bytes()};
  }
  return static_cast<uint16_t>(run.segments());
}

}  // namespace uroce::glue::kif
