// Sends mbufs through a packet socket, runs of them as super-frames.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "pmd_glue/kif/outbox.h"
#include "pmd_glue/kif/super_frame.h"

namespace uroce::glue::kif {

/// One thread uses it.
class Sender final : public Outbox {
 public:
  explicit Sender(bool super_frames) : Outbox(super_frames) {}

 private:
  struct Message {
    VnetHeader vnet{};
    std::array<std::byte, kMaxHeaderBytes> headers{};
  };
  uint16_t describe(std::size_t index, msghdr& message, std::span<rte_mbuf* const> mbufs, bool joins) override;

  std::array<Message, kMost> messages_{};
};

}  // namespace uroce::glue::kif
