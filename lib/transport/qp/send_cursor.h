// The requester's place in the send queue: the next packet to send.
#pragma once

#include <cstdint>

namespace uroce::transport {

class SendCursor {
 public:
  SendCursor() = default;
  explicit SendCursor(uint32_t index) : index_(index) {}

  /// SQ index of the work request being sent.
  uint32_t index() const { return index_; }
  /// The next packet of that work request.
  uint32_t packet() const { return packet_; }
  /// `packets` of a work request of `total` packets have been sent. After its last one the next request follows.
  void step(uint32_t packets, uint32_t total) {
    packet_ += packets;
    if (packet_ < total) return;
    ++index_;
    packet_ = 0;
  }
  void move_to(uint32_t index, uint32_t packet = 0) {
    index_ = index;
    packet_ = packet;
  }
  /// The first `packets` of the work request are acknowledged: they need not be sent again.
  void skip_to_packet(uint32_t packets) {
    if (packets > packet_) packet_ = packets;
  }

  template <class Archive>
  void persist(Archive& archive) {
    auto& [at, next] = *this;
    archive("index", at);
    archive("packet", next);
  }

 private:
  uint32_t index_ = 0;
  uint32_t packet_ = 0;
};

}  // namespace uroce::transport
