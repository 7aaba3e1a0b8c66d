#include "pmd_glue/kif/sender.h"

#include <linux/sockios.h>
#include <rte_mbuf.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <cassert>
#include <cerrno>

namespace uroce::glue::kif {

namespace {

/// The sink's longest chain: headers, payload of four places, trailer.
constexpr std::size_t kChain = 6;
/// UIO_MAXIOV: what one message may have.
constexpr std::size_t kMessageVectors = 1024;

std::span<const std::byte> head_of(const rte_mbuf* mbuf) {
  return {rte_pktmbuf_mtod(mbuf, const std::byte*), mbuf->data_len};
}

/// Bytes of the socket's frames that have not left this host yet; 0 if the kernel does not tell.
uint32_t under_way(int fd) {
  int bytes = 0;
  return ioctl(fd, SIOCOUTQ, &bytes) == 0 ? static_cast<uint32_t>(std::max(bytes, 0)) : 0;
}

}  // namespace

// Each message adds the virtio header and its own headers.
Sender::Sender(bool super_frames) : vectors_(kMost * (kChain + 2)), super_frames_(super_frames) {
  static_assert(kMaxSegments * kChain + 2 <= kMessageVectors);
}

void Sender::add_bytes(const rte_mbuf* mbuf, uint32_t skip) {
  assert(mbuf->nb_segs <= kChain);
  for (; mbuf != nullptr; mbuf = mbuf->next, skip = 0) {
    if (mbuf->data_len == skip) continue;
    vectors_[vectors_used_++] = {rte_pktmbuf_mtod_offset(mbuf, void*, skip), mbuf->data_len - size_t{skip}};
  }
}

void Sender::add_message(std::span<rte_mbuf* const> mbufs, bool joins) {
  Message& message = messages_[count_];
  msghdr& header = headers_[count_].msg_hdr;
  ++count_;
  header = {};
  header.msg_iov = &vectors_[vectors_used_];
  vectors_[vectors_used_++] = {&message.vnet, sizeof message.vnet};
  const std::size_t first = vectors_used_++;  // the headers of a super-frame
  FrameRun run(head_of(mbufs[0]), mbufs[0]->pkt_len);
  add_bytes(mbufs[0], run.header_bytes());
  if (joins) {
    for (const rte_mbuf* next : mbufs.subspan(1)) {
      if (!run.add(head_of(next), next->pkt_len)) break;
      add_bytes(next, run.header_bytes());
    }
  }
  message.frames = static_cast<uint16_t>(run.segments());
  message.vnet = {};
  if (run.segments() > 1) {
    message.vnet = run.finish(message.headers.data());
    vectors_[first] = {message.headers.data(), run.header_bytes()};
  } else {
    vectors_[first] = {rte_pktmbuf_mtod(mbufs[0], void*), run.header_bytes()};
  }
  header.msg_iovlen = static_cast<std::size_t>(&vectors_[vectors_used_] - header.msg_iov);
}

// One refusal may have to do with these frames. A way out that takes none at all would refuse every one.
void Sender::take_refusal(uint32_t alone) {
  alone_ = alone;
  if (++refusals_ == kMostRefusals) super_frames_.store(false, std::memory_order_relaxed);
}

bool Sender::keep_dropped(int fd) { return below_.keep_dropped(under_way(fd), clock_.now()); }

uint16_t Sender::send(int fd, std::span<rte_mbuf*> mbufs) {
  if (below_.waits() && below_.full(under_way(fd), clock_.now())) return 0;
  mbufs = mbufs.first(std::min(mbufs.size(), kMost));
  count_ = vectors_used_ = 0;
  for (std::size_t at = 0; at < mbufs.size(); at += messages_[count_ - 1].frames) {
    add_message(mbufs.subspan(at), at >= alone_ && super_frames());
  }
  const uint16_t frames = send_messages(fd);
  alone_ -= std::min<uint32_t>(alone_, frames);
  rte_pktmbuf_free_bulk(mbufs.data(), frames);
  return frames;
}

uint16_t Sender::send_messages(int fd) {
  std::size_t done = 0;
  uint16_t frames = 0;
  while (done < count_) {
    const int sent = sendmmsg(fd, &headers_[done], static_cast<unsigned>(count_ - done), MSG_DONTWAIT);
    for (int i = 0; i < sent; ++i, ++done) {
      frames += messages_[done].frames;
      if (messages_[done].frames == 1) continue;
      refusals_ = 0;
      counters_.super_frames.add();
      counters_.super_segments.add(messages_[done].frames);
    }
    if (sent > 0) {
      below_.passed();
      continue;
    }
    const int error = errno;
    if (error == EAGAIN || error == EINTR) break;  // the socket is full
    if ((error == ENOBUFS || error == ENOMEM) && keep_dropped(fd)) break;
    if (error == EINVAL && messages_[done].frames > 1) {
      take_refusal(frames + messages_[done].frames);
      break;
    }
    counters_.dropped.add(messages_[done].frames);
    frames += messages_[done].frames;
    ++done;
  }
  return frames;
}

}  // namespace uroce::glue::kif
