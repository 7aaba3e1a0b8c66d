// The receiving half of a stream: the bytes that the peer has written, and what it is told about room and credits.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "dropin/rsocket/buffer.h"
#include "dropin/rsocket/socket.h"
#include "dropin/rsocket/wire.h"

namespace uroce::dropin::rsocket {

/// One thread at a time takes data, and one handles completions and grants.
class Incoming {
 public:
  /// 0, or -1 with errno.
  int make(ibv_pd* pd, const Sizes& sizes);
  void reset() { buffer_.reset(); }
  bool made() const { return static_cast<bool>(buffer_); }

  /// Takes note of a message of the peer. False when the peer exceeds its room or credits: it is broken or hostile.
  bool add(uint32_t bytes) {
    const uint32_t next = tail_ + 1 == messages_.size() ? 0 : tail_ + 1;
    if (next == head_ || bytes > bytes_ - unread_) return false;
    if (bytes == 0) {
      ++received_;
      return true;
    }
    messages_[tail_] = bytes;
    unread_ += bytes;
    tail_ = next;
    return true;
  }

  bool has_data() const { return head_ != tail_; }
  /// Copies data, and leaves it.
  std::size_t peek(IoCursor to) const;
  void take(IoCursor& to);

  /// The peer should hear of room or of credits.
  bool owes_peer() const {
    return half_is_free() || static_cast<int16_t>(static_cast<uint16_t>(received_ - grant_at_)) >= 0;
  }
  /// Grants all credits that there are. Returns the number of the message at which they end.
  uint16_t grant() {
    grant_at_ = static_cast<uint16_t>(received_ + credits_ / 2);
    return static_cast<uint16_t>(received_ + credits_);
  }
  /// Half of the buffer is room that the peer does not know of.
  bool half_is_free() const { return freed_ >= bytes_ / 2; }
  /// The credits and the half that the greeting advertises.
  uint16_t first_credits() const { return static_cast<uint16_t>(credits_); }
  wire::Target first_half() const { return {buffer_.address(), buffer_.rkey(), bytes_ / 2}; }
  /// The half that is advertised next.
  wire::Target half() const { return {buffer_.address() + given_, buffer_.rkey(), bytes_ / 2}; }
  /// It has been advertised.
  void half_given();

 private:
  Buffer buffer_;
  uint32_t bytes_ = 0;              ///< its size
  uint32_t credits_ = 0;            ///< messages, as many as receives
  std::vector<uint32_t> messages_;  ///< a ring: the unread bytes of each
  std::atomic<uint32_t> head_{0}, tail_{0};
  std::atomic<uint32_t> unread_{0};    ///< the sum of messages_
  std::atomic<uint32_t> freed_{0};     ///< bytes read since a half was last advertised
  uint32_t given_ = 0;                 ///< offset of the half to advertise next
  uint32_t at_ = 0;                    ///< offset of the next bytes to read
  std::atomic<uint16_t> received_{0};  ///< messages read
  std::atomic<uint16_t> grant_at_{0};  ///< when received_ reaches this, credits are due
};

}  // namespace uroce::dropin::rsocket
