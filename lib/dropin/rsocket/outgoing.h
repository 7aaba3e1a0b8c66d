// The sending half of a stream: a ring of bytes and the send requests, as far as they are not in flight.
#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "dropin/rsocket/buffer.h"
#include "dropin/rsocket/socket.h"
#include "dropin/rsocket/wire.h"

namespace uroce::dropin::rsocket {

/// One thread at a time puts bytes, and one handles completions and control messages.
class Outgoing {
 public:
  /// A send request's bytes, in one or two pieces of the ring.
  struct Pieces {
    std::array<ibv_sge, 2> all;
    std::size_t count;
    std::span<ibv_sge> used() { return std::span(all).first(count); }
  };

  /// 0, or -1 with errno.
  int make(ibv_pd* pd, const Sizes& sizes);
  void reset() { buffer_.reset(); }
  bool made() const { return static_cast<bool>(buffer_); }

  bool has_room() const { return requests_free_ != 0 && free_ >= kLowWater; }
  uint32_t free() const { return free_; }
  /// Copies `size` bytes, at most free(), for one send request.
  Pieces put(IoCursor& from, std::size_t size);
  /// A send request of so many bytes has completed.
  void returned(uint32_t bytes) {
    ++requests_free_;
    free_ += bytes;
  }

  /// Control messages have send requests of their own.
  bool can_control() const { return control_sent_ != control_limit_; }
  /// Takes one for a control message. Returns the place of put_entry().
  uint32_t take_control() { return control_sent_++; }
  void control_returned() { ++control_limit_; }
  /// Copies an entry of a table that a control message writes.
  ibv_sge put_entry(uint32_t place, const wire::Target& entry);

  bool all_sent() const { return control_limit_ - control_sent_ + requests_free_ == requests_; }

 private:
  Buffer buffer_;
  uint32_t bytes_ = 0;             ///< of the ring
  uint32_t requests_ = 0;          ///< with those for control messages
  uint32_t at_ = 0;                ///< offset of the next bytes
  std::atomic<uint32_t> free_{0};  ///< bytes
  std::atomic<uint32_t> requests_free_{0};
  std::atomic<uint32_t> control_sent_{0};
  std::atomic<uint32_t> control_limit_{0};
};

}  // namespace uroce::dropin::rsocket
