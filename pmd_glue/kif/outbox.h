// Sends mbufs through a socket, runs of them as one message. Each kind of socket describes its own messages.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include <sys/socket.h>
#include <sys/uio.h>

#include "base/counter.h"
#include "pmd_glue/clock.h"
#include "pmd_glue/kif/queue_below.h"

struct rte_mbuf;

namespace uroce::glue::kif {

struct SendCounters {
  Counter super_frames;
  Counter super_segments;  ///< frames that left in them
  /// Frames that the kernel refused or dropped: the interface is down, its MTU is smaller now, or a filter or a queue
  /// on the way out drops them.
  Counter dropped;
};

/// One thread uses it.
class Outbox {
 public:
  /// Frames that one call looks at: as many as an engine's poll builds, half of a window.
  static constexpr std::size_t kMost = 128;

  Outbox(const Outbox&) = delete;
  Outbox& operator=(const Outbox&) = delete;

  /// Sends a prefix of `mbufs`, frees it, and returns its length. The rest has to wait. Frames that can never leave are
  /// counted and freed. Reads nothing after it has returned.
  uint16_t send(int fd, std::span<rte_mbuf*> mbufs);
  const SendCounters& counters() const { return counters_; }
  /// False if they are not wanted, or the kernel has refused kMostRefusals in a row. Any thread.
  bool super_frames() const { return super_frames_.load(std::memory_order_relaxed); }
  static constexpr uint32_t kMostRefusals = 8;

 protected:
  explicit Outbox(bool super_frames);
  virtual ~Outbox() = default;

  /// Describes the first one of `mbufs`, or a run at their beginning, as message `index`. Returns the frames in it.
  virtual uint16_t describe(std::size_t index, msghdr& message, std::span<rte_mbuf* const> mbufs, bool joins) = 0;
  /// The bytes of the frame behind the first `skip`, as the message's next parts.
  void add_bytes(const rte_mbuf* mbuf, uint32_t skip);
  /// The message's next part. At most two in each, besides those of add_bytes().
  iovec& add_part() { return vectors_[vectors_used_++]; }
  iovec* next_part() { return &vectors_[vectors_used_]; }

 private:
  /// How many frames the kernel took, or refused for good, of all messages.
  uint16_t send_messages(int fd);
  /// The kernel refused a super-frame. It ends behind `alone` frames, which leave one by one.
  void take_refusal(uint32_t alone);
  /// The kernel dropped a message's frames. True: they are sent again later.
  bool keep_dropped(int fd);

  std::size_t count_ = 0;
  std::size_t vectors_used_ = 0;
  uint32_t alone_ = 0;     ///< so many of the next frames leave one by one
  uint32_t refusals_ = 0;  ///< super-frames refused since the last one that left
  std::array<uint16_t, kMost> frames_{};
  std::array<mmsghdr, kMost> headers_{};
  std::vector<iovec> vectors_;
  std::atomic<bool> super_frames_;
  const TscClock clock_;
  QueueBelow below_;
  SendCounters counters_;
};

}  // namespace uroce::glue::kif
