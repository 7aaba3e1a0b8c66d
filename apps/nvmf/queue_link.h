// The RDMA half of a queue: its queue pair, the receives for capsules, READs, WRITEs, SENDs and probes. It knows no
// NVMe but the sizes of commands and responses.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include <uroce/verbs.h>

#include "base/time.h"
#include "nvmf/capsule.h"
#include "nvmf/nvme.h"
#include "nvmf/queue_memory.h"
#include "nvmf/sizes.h"

namespace uroce::nvmf {

/// An RDMA device with what all its queues on one reactor share.
struct Device {
  Context context;
  ProtectionDomain pd;
  MemoryRegion buffers;  ///< the pool's memory
  int engine;            ///< of the queue pairs (QpInit::engine)
};

/// Calls that return false have found the connection broken: close() follows.
class QueueLink {
 public:
  enum class Work : uint8_t { receive, read, respond, probe };
  /// A capsule and its response.
  struct Exchange {
    uint32_t index = 0;  ///< the queue's number for it
    uint16_t slot = 0;   ///< its receive
    Transfer transfer{};
  };
  /// Work that has ended.
  struct Ended {
    Work work;
    bool failed;
    uint32_t index;  ///< of the receive's slot, or of the exchange
    uint32_t bytes;  ///< of the capsule
  };

  /// Its queue pair is in RESET. It has `slots` receives, and `exchanges` may be under way; `buffers` is the pool's
  /// memory. Errors: those of the device's objects.
  static Result<QueueLink> open(Device& device, uint32_t slots, uint32_t exchanges, const std::byte* buffers);

  QueuePair& qp() { return *qp_; }
  /// Posts all receives: once, when the queue pair is in INIT.
  Result<void> post_receives();

  std::size_t poll(std::span<Completion> completions) { return cq_.poll(completions); }
  static Ended ended(const Completion& completion) {
    return {static_cast<Work>(completion.wr_id >> 32), completion.status != WcStatus::success,
            static_cast<uint32_t>(completion.wr_id), completion.byte_len};
  }
  std::byte* entry(uint16_t slot) const { return memory_.entry(slot); }
  std::byte* data(uint16_t slot) const { return memory_.data(slot); }

  /// Fetches the host's data into a buffer of the pool.
  [[nodiscard]] bool read(const Exchange& exchange, std::span<std::byte> into);
  /// Posts the receive again, writes `data` of the pool to the host if there is some, and sends the response.
  [[nodiscard]] bool respond(const Exchange& exchange, const nvme::Response& response, std::span<const std::byte> data);
  /// Asks the host's device whether it is there, unless a probe is under way or was sent lately. probe_ended() follows
  /// when it answers.
  [[nodiscard]] bool probe(Nanos now);
  void probe_ended() { probing_ = false; }

  /// No engine reads or writes buffers once it returns, and no other call may follow.
  void close() { qp_.reset(); }

 private:
  QueueLink(Device& device, uint32_t slots, const std::byte* buffers, QueueMemory memory, MemoryRegion region,
            CompletionQueue cq, QueuePair qp)
      : device_(device),
        buffers_(buffers),
        slots_(slots),
        memory_(std::move(memory)),
        region_(std::move(region)),
        cq_(std::move(cq)),
        qp_(std::move(qp)) {}

  static constexpr uint64_t wr_id(Work work, uint32_t index) {
    return uint64_t{static_cast<uint8_t>(work)} << 32 | index;
  }
  bool post_receive(uint16_t slot);
  Sge sge(std::span<const std::byte> buffer) const {
    return device_.buffers.sge(static_cast<std::size_t>(buffer.data() - buffers_),
                               static_cast<uint32_t>(buffer.size()));
  }

  Device& device_;
  const std::byte* const buffers_;
  const uint32_t slots_;
  // Torn down from the last to the first.
  QueueMemory memory_;
  MemoryRegion region_;
  CompletionQueue cq_;
  std::optional<QueuePair> qp_;
  bool probing_ = false;
  Nanos next_probe_{};
};

inline bool QueueLink::post_receive(uint16_t slot) {
  const std::array<Sge, 2> parts{region_.sge(memory_.entry_offset(slot), sizeof(nvme::Command)),
                                 region_.sge(memory_.data_offset(slot), kInCapsuleBytes)};
  return qp_->post_recv({.wr_id = wr_id(Work::receive, slot), .sges = parts}) == 0;
}

[[gnu::always_inline]] inline bool QueueLink::respond(const Exchange& exchange, const nvme::Response& response,
                                                      std::span<const std::byte> data) {
  // The receive first: the host may send the next command as soon as it has the response.
  if (!post_receive(exchange.slot)) return false;
  const Transfer& to = exchange.transfer;
  const SendRequest answer{.wr_id = wr_id(Work::respond, exchange.index),
                           .opcode = to.invalidate ? WrOpcode::send_with_invalidate : WrOpcode::send,
                           .flags = SendFlag::signaled | SendFlag::inline_data,
                           .inline_data = std::as_bytes(std::span(&response, 1)),
                           .imm_or_key = to.key};
  if (data.empty()) return qp_->post_send(std::span(&answer, 1)) == 1;
  const Sge from = sge(data);
  const std::array<SendRequest, 2> work{SendRequest{.wr_id = exchange.index,
                                                    .opcode = WrOpcode::rdma_write,
                                                    .sges = {&from, 1},
                                                    .remote_addr = to.address,
                                                    .rkey = to.key},
                                        answer};
  return qp_->post_send(work) == work.size();
}

}  // namespace uroce::nvmf
