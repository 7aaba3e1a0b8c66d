// Frames on their way through the fabric, in memory that is used again.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace uroce::sim {

/// A frame from Ethernet header to ICRC. link_bytes() adds its overhead on the wire.
struct FabricFrame {
  static constexpr std::size_t kMaxBytes = 4352;  ///< headers, 4096 bytes of payload, ICRC
  std::array<std::byte, kMaxBytes> storage;
  uint32_t length = 0;
  std::span<const std::byte> bytes() const { return {storage.data(), length}; }
  std::span<std::byte> bytes() { return {storage.data(), length}; }
};

/// Preamble 8, frame check sequence 4, gap between frames 12.
inline constexpr uint32_t kLinkOverhead = 24;

class FramePool {
 public:
  class Return {
   public:
    explicit Return(FramePool* pool = nullptr) : pool_(pool) {}
    void operator()(FabricFrame* frame) const { pool_->free_.push_back(frame); }

   private:
    FramePool* pool_;
  };
  using Ptr = std::unique_ptr<FabricFrame, Return>;

  Ptr take() {
    if (free_.empty()) free_.push_back(all_.emplace_back(std::make_unique<FabricFrame>()).get());
    FabricFrame* frame = free_.back();
    free_.pop_back();
    return {frame, Return(this)};
  }

 private:
  std::vector<std::unique_ptr<FabricFrame>> all_;
  std::vector<FabricFrame*> free_;
};
using FramePtr = FramePool::Ptr;

}  // namespace uroce::sim
