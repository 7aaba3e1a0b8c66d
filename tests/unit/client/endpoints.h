// Two contexts on two devices of a World, through the public API alone.
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <vector>

#include <gtest/gtest.h>

#include <uroce/verbs.h>

#include "client/in_process.h"
#include "world.h"

namespace uroce::test {

template <class T>
T must(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().text);
  return std::move(*result);
}
inline void must(const Result<void>& result) {
  if (!result) throw std::runtime_error(result.error().text);
}

/// A context with one of each object, and registered memory.
struct Side {
  static constexpr std::size_t kBytes = 1 << 16;
  static constexpr AccessFlags kAll = Access::local_write | Access::remote_write | Access::remote_read |
                                      Access::remote_atomic | Access::remote_invalidate | Access::flush_global;

  explicit Side(const std::shared_ptr<control::Device>& device, uint32_t cq_entries = 1024)
      : Side(Context(must(client::make_in_process_context(device))), cq_entries) {}
  explicit Side(Context opened, uint32_t cq_entries = 1024)
      : context(std::move(opened)),
        pd(must(context.create_pd())),
        channel(must(context.create_channel())),
        cq(must(context.create_cq(cq_entries, &channel))),
        memory(kBytes),
        mr(must(pd.register_memory(memory.data(), memory.size(), kAll))) {}

  QueuePair make_qp(const QpInit& init = {}, const SharedReceiveQueue* srq = nullptr) {
    return must(context.create_qp(pd, cq, cq, init, srq));
  }
  /// A raw packet queue pair in RTS.
  QueuePair make_raw_qp() {
    auto qp = make_qp({.type = QpType::raw_packet});
    using Bit = QpAttrBit;
    const QueuePair::Step steps[] = {{{.state = QpState::init}, Bit::state | Bit::port},
                                     {{.state = QpState::rtr}, Bit::state},
                                     {{.state = QpState::rts}, Bit::state}};
    must(qp.modify(steps));
    return qp;
  }
  QueuePair::Peer peer(const QueuePair& qp, uint32_t psn) const { return {context.info().gids[0], qp.qpn(), psn}; }

  Context context;
  ProtectionDomain pd;
  CompletionChannel channel;
  CompletionQueue cq;
  std::vector<std::byte> memory;
  MemoryRegion mr;
};

/// `timeout`: a code, 4.096 us * 2^timeout. After 8 of them without an answer, a request fails.
inline void connect(const Side& a, QueuePair& qa, const Side& b, QueuePair& qb, uint8_t timeout = 14) {
  const uint32_t psn_a = 0xffff00 + qa.qpn() % 0x80, psn_b = qb.qpn();
  must(qa.connect(b.peer(qb, psn_b), {.psn = psn_a, .timeout = timeout}));
  must(qb.connect(a.peer(qa, psn_a), {.psn = psn_b, .timeout = timeout}));
}

/// Waits for the next completion; fails the test when none comes.
inline Completion next(World& world, CompletionQueue& cq) {
  Completion completion;
  const bool came = world.run_until([&] { return cq.poll({&completion, 1}) == 1; });
  EXPECT_TRUE(came) << "no completion came";
  return completion;
}

}  // namespace uroce::test
