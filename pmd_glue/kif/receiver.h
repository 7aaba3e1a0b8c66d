// Receives mbufs from a packet socket, and takes super-frames apart.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include <sys/socket.h>
#include <sys/uio.h>

#include "base/counter.h"
#include "pmd_glue/kif/foreseen_shape.h"
#include "pmd_glue/kif/ready_frames.h"
#include "pmd_glue/kif/super_frame.h"

struct rte_mbuf;
struct rte_mempool;

namespace uroce::glue::kif {

struct ReceiveCounters {
  Counter super_frames;
  Counter super_segments;   ///< frames that came in them
  Counter super_copied;     ///< super-frames whose parts were copied once more, because their shape was not foreseen
  Counter bad_kind;         ///< SuperFault::kind; dropped, as those below
  Counter bad_headers;      ///< SuperFault::headers
  Counter bad_lengths;      ///< SuperFault::lengths
  Counter bad_segment;      ///< SuperFault::segment
  Counter too_long;         ///< longer than a buffer
  Counter buffers_missing;  ///< times that the pool was empty; frames wait in the socket
};

/// One thread uses it. The kernel copies a super-frame's parts straight into buffers, if its shape was foreseen.
class Receiver {
 public:
  /// `pool` outlives the receiver; `tag` is written into each frame as its 802.1Q tag, if it is not 0.
  Receiver(rte_mempool* pool, uint16_t tag);
  ~Receiver();
  Receiver(const Receiver&) = delete;
  Receiver& operator=(const Receiver&) = delete;

  /// At most out.size() frames; they belong to the caller.
  uint16_t receive(int fd, std::span<rte_mbuf*> out);
  /// As receive(), of what it has taken from its socket already.
  uint16_t receive_rest(std::span<rte_mbuf*> out) { return ready_.give_rest(out); }
  /// Tells what may follow the last burst.
  Behind behind() const { return ready_.behind(); }
  const ReceiveCounters& counters() const { return counters_; }

 private:
  bool fill_stock();
  void expect(Shape shape);
  /// Describes the buffer `i` of the stock, if a super-frame of the expected shape may reach it.
  void describe(std::size_t i);
  /// One message. False: none is there, or no buffer for it.
  bool receive_message(int fd);
  void take_frame(uint32_t length);
  void take_super_frame(uint32_t length);
  /// Copies the first `length` bytes of the message to `to`.
  void gather(std::byte* to, uint32_t length) const;
  /// The first `count` buffers of the stock are ready for the caller.
  void hand_out(std::size_t count);
  void add_tag(rte_mbuf& mbuf) const;

  rte_mempool* const pool_;
  const uint16_t tag_;
  const uint32_t room_;  ///< bytes of a frame that a buffer holds
  ForeseenShape foreseen_;
  Shape shape_{};               ///< that of vectors_
  std::size_t described_ = 0;   ///< buffers of the stock that vectors_ hold
  uint32_t single_frames_ = 0;  ///< since the last super-frame, up to kManySingles
  VnetHeader vnet_{};
  std::size_t stock_count_ = 0;
  std::array<rte_mbuf*, kMaxReceivedSegments> stock_{};
  ReadyFrames ready_;
  /// The virtio header, the first buffer with room for headers, the payload of described_ in all, and what exceeds
  /// them.
  std::array<iovec, kMaxReceivedSegments + 2> vectors_{};
  std::vector<std::byte> excess_;
  std::vector<std::byte> whole_;
  ReceiveCounters counters_;
};

}  // namespace uroce::glue::kif
