#include "dropin/rsocket/incoming.h"

#include <algorithm>

namespace uroce::dropin::rsocket {

int Incoming::make(ibv_pd* pd, const Sizes& sizes) {
  if (buffer_.make(pd, sizes.receive_bytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE) != 0) return -1;
  bytes_ = sizes.receive_bytes;
  credits_ = sizes.receive_queue;
  messages_.assign(credits_ + 1, 0);
  // The greeting advertises the first half of the buffer; the second half can be advertised at once.
  given_ = bytes_ / 2;
  freed_ = bytes_ / 2;
  grant_at_ = static_cast<uint16_t>(credits_ / 2);
  return 0;
}

std::size_t Incoming::peek(IoCursor to) const {
  const std::size_t total = to.left();
  const std::size_t size = std::min<std::size_t>(total, unread_);
  const std::size_t to_end = std::min<std::size_t>(size, bytes_ - at_);
  to.put(buffer_.data() + at_, to_end);
  to.put(buffer_.data(), size - to_end);
  return total - to.left();
}

void Incoming::take(IoCursor& to) {
  while (to.left() > 0 && has_data()) {
    uint32_t& message = messages_[head_];
    const std::size_t size = std::min<std::size_t>({message, to.left(), std::size_t{bytes_} - at_});
    to.put(buffer_.data() + at_, size);
    const auto bytes = static_cast<uint32_t>(size);
    at_ = (at_ + bytes) % bytes_;
    message -= bytes;
    unread_ -= bytes;
    freed_ += bytes;
    if (message != 0) continue;
    head_ = head_ + 1 == messages_.size() ? 0 : head_ + 1;
    ++received_;
  }
}

void Incoming::half_given() {
  freed_ -= bytes_ / 2;
  given_ = given_ == 0 ? bytes_ / 2 : 0;
}

}  // namespace uroce::dropin::rsocket
