#include "dropin/rsocket/outgoing.h"

#include <algorithm>
#include <cstring>

namespace uroce::dropin::rsocket {

namespace {

/// Control messages that may be in flight at once; so many send requests are reserved for them.
constexpr uint32_t kControls = 4;

}  // namespace

int Outgoing::make(ibv_pd* pd, const Sizes& sizes) {
  // A slot for each control message that is too long to be inline follows the ring of bytes.
  const std::size_t all = sizes.send_bytes + kControls * sizeof(wire::Target);
  if (buffer_.make(pd, all, IBV_ACCESS_LOCAL_WRITE) != 0) return -1;
  bytes_ = sizes.send_bytes;
  requests_ = sizes.send_queue;
  free_ = bytes_;
  control_limit_ = kControls;
  requests_free_ = requests_ - kControls;
  return 0;
}

Outgoing::Pieces Outgoing::put(IoCursor& from, std::size_t size) {
  const std::size_t to_end = std::min<std::size_t>(size, bytes_ - at_);
  from.get(buffer_.data() + at_, to_end);
  from.get(buffer_.data(), size - to_end);
  const Pieces out{.all = {{{buffer_.address() + at_, static_cast<uint32_t>(to_end), buffer_.lkey()},
                            {buffer_.address(), static_cast<uint32_t>(size - to_end), buffer_.lkey()}}},
                   .count = size > to_end ? 2u : 1u};
  at_ = static_cast<uint32_t>((at_ + size) % bytes_);
  free_ -= static_cast<uint32_t>(size);
  --requests_free_;
  return out;
}

ibv_sge Outgoing::put_entry(uint32_t place, const wire::Target& entry) {
  // There is a slot for each control message in flight.
  std::byte* there = buffer_.data() + bytes_ + place % kControls * sizeof(entry);
  std::memcpy(there, &entry, sizeof(entry));
  return {reinterpret_cast<uint64_t>(there), sizeof(entry), buffer_.lkey()};
}

}  // namespace uroce::dropin::rsocket
