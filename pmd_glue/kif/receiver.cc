#include "pmd_glue/kif/receiver.h"

#include <rte_mbuf.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/bytes.h"
#include "wire/ethernet.h"

namespace uroce::glue::kif {

namespace {

/// The longest message, and some more.
constexpr std::size_t kWholeBytes = 1 << 17;
/// Before anything came: packets of path MTU 1024 over IPv4.
constexpr Shape kFirstShape{42, 1024 + 16};
/// The first buffer's part always holds all headers.
constexpr uint32_t kLeastFirst = kMaxHeaderBytes;
/// Bytes. A shorter super-frame between long ones is copied for less than it takes to describe all buffers twice.
constexpr uint32_t kWorthDescribing = 4096;
/// Frames. After as many without a super-frame, none is expected: a receiver of ACKs describes one buffer to the
/// kernel.
constexpr uint32_t kManySingles = 64;

}  // namespace

Receiver::Receiver(rte_mempool* pool, uint16_t tag)
    : pool_(pool),
      tag_(tag),
      room_(rte_pktmbuf_data_room_size(pool) - RTE_PKTMBUF_HEADROOM),
      foreseen_(kFirstShape),
      excess_(kWholeBytes),
      whole_(kWholeBytes) {
  vectors_[0] = {&vnet_, sizeof vnet_};
  expect(kFirstShape);
}

Receiver::~Receiver() { rte_pktmbuf_free_bulk(stock_.data(), static_cast<unsigned>(stock_count_)); }

bool Receiver::fill_stock() {
  if (stock_count_ == stock_.size()) return true;
  const std::size_t first = stock_count_;
  if (rte_pktmbuf_alloc_bulk(pool_, &stock_[first], static_cast<unsigned>(stock_.size() - first)) != 0) return false;
  stock_count_ = stock_.size();
  for (std::size_t i = first; i < stock_count_; ++i) describe(i);
  return true;
}

void Receiver::describe(std::size_t i) {
  if (i >= described_) return;
  std::byte* const data = rte_pktmbuf_mtod(stock_[i], std::byte*);
  vectors_[i + 1] =
      i == 0 ? iovec{data, shape_.headers + shape_.segment} : iovec{data + shape_.headers, shape_.segment};
}

void Receiver::expect(Shape shape) {
  if (shape == shape_) return;
  shape_ = shape;
  described_ = shape.headers == 0
                   ? 1
                   : std::min<std::size_t>(kMaxReceivedSegments, (kMaxIpBytes + shape.segment - 1) / shape.segment);
  vectors_[described_ + 1] = {excess_.data(), excess_.size()};
  for (std::size_t i = 0; i < stock_count_; ++i) describe(i);
}

uint16_t Receiver::receive(int fd, std::span<rte_mbuf*> out) {
  return ready_.give(out, [this, fd] { return receive_message(fd); });
}

bool Receiver::receive_message(int fd) {
  if (!fill_stock()) {
    counters_.buffers_missing.add();
    return false;
  }
  msghdr message{};
  message.msg_iov = vectors_.data();
  message.msg_iovlen = described_ + 2;
  const ssize_t bytes = recvmsg(fd, &message, MSG_DONTWAIT);
  if (bytes < 0) {
    if (errno == EINVAL) counters_.bad_kind.add();  // a segmentation for which the header has no name
    return false;
  }
  if (bytes <= static_cast<ssize_t>(sizeof vnet_)) return true;
  const auto length = static_cast<uint32_t>(bytes - static_cast<ssize_t>(sizeof vnet_));
  if ((message.msg_flags & MSG_TRUNC) != 0) {
    counters_.too_long.add();
  } else if (vnet_.gso_type == 0) {
    take_frame(length);
  } else {
    take_super_frame(length);
  }
  return true;
}

void Receiver::gather(std::byte* to, uint32_t length) const {
  for (std::size_t i = 1; length != 0; ++i) {
    const auto some = static_cast<uint32_t>(std::min<std::size_t>(vectors_[i].iov_len, length));
    std::memcpy(to, vectors_[i].iov_base, some);
    to += some;
    length -= some;
  }
}

void Receiver::take_frame(uint32_t length) {
  if (length > room_) return counters_.too_long.add();
  if (length > vectors_[1].iov_len) gather(rte_pktmbuf_mtod(stock_[0], std::byte*), length);
  stock_[0]->data_len = static_cast<uint16_t>(length);
  stock_[0]->pkt_len = length;
  hand_out(1);
  if (single_frames_ == kManySingles) return;
  ++single_frames_;
  if (single_frames_ == kManySingles) expect({0, room_});
}

void Receiver::take_super_frame(uint32_t length) {
  const std::span<const std::byte> head(rte_pktmbuf_mtod(stock_[0], const std::byte*),
                                        std::min<std::size_t>(length, vectors_[1].iov_len));
  const auto parts = split(vnet_, head, length);
  if (!parts) {
    switch (parts.error()) {
      case SuperFault::kind: return counters_.bad_kind.add();
      case SuperFault::headers: return counters_.bad_headers.add();
      case SuperFault::lengths: return counters_.bad_lengths.add();
      case SuperFault::segment: return counters_.bad_segment.add();
    }
  }
  const uint32_t headers = parts->headers.length;
  const Shape shape{headers, parts->segment_bytes};
  const uint32_t count = parts->segments;
  if (headers + parts->segment_bytes > room_) return counters_.too_long.add();
  counters_.super_frames.add();
  counters_.super_segments.add(count);
  const bool foreseen = shape == shape_;
  if (!foreseen) {
    counters_.super_copied.add();
    gather(whole_.data(), length);
  }
  const SegmentHeaders segment_headers(head, *parts);
  // The first buffer's headers are those of the whole until the others have theirs.
  for (uint32_t i = count; i-- > 0;) {
    std::byte* const data = rte_pktmbuf_mtod(stock_[i], std::byte*);
    const uint32_t bytes = parts->bytes_of(i);
    if (!foreseen) std::memcpy(data + headers, &whole_[headers + std::size_t{i} * shape.segment], bytes);
    const std::span<const std::byte> whole = foreseen ? head : whole_;
    const uint16_t id = segment_id(whole, whole.subspan(headers, parts->bytes_of(0)), {data + headers, bytes}, i);
    segment_headers.write(data, i, id);
    stock_[i]->data_len = static_cast<uint16_t>(headers + bytes);
    stock_[i]->pkt_len = headers + bytes;
  }
  hand_out(count);
  single_frames_ = 0;
  if (length >= kWorthDescribing && shape.headers + shape.segment >= kLeastFirst) expect(foreseen_.after(shape));
}

void Receiver::hand_out(std::size_t count) {
  ready_.clear();
  for (std::size_t i = 0; i < count; ++i) ready_.add(stock_[i]);
  if (tag_ != 0) {
    for (rte_mbuf* const mbuf : ready_.all()) add_tag(*mbuf);
  }
  // The last ones fill the gap: buffers have no order.
  const std::size_t moved = std::min(count, stock_count_ - count);
  std::copy_n(stock_.begin() + static_cast<std::ptrdiff_t>(stock_count_ - moved), moved, stock_.begin());
  stock_count_ -= count;
  for (std::size_t i = 0; i < moved; ++i) describe(i);
}

// The kernel keeps tags apart from frames, and the filter lets only those of one id pass.
void Receiver::add_tag(rte_mbuf& mbuf) const {
  constexpr std::size_t kAddresses = 12;
  static_assert(RTE_PKTMBUF_HEADROOM >= wire::kVlanBytes);
  mbuf.data_off -= wire::kVlanBytes;
  mbuf.data_len += wire::kVlanBytes;
  mbuf.pkt_len += wire::kVlanBytes;
  std::byte* const data = rte_pktmbuf_mtod(&mbuf, std::byte*);
  std::memmove(data, data + wire::kVlanBytes, kAddresses);
  store_be16(data + kAddresses, wire::kEthertypeVlan);
  store_be16(data + kAddresses + 2, tag_);
}

}  // namespace uroce::glue::kif
