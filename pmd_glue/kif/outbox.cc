#include "pmd_glue/kif/outbox.h"

#include <linux/sockios.h>
#include <rte_mbuf.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <cassert>
#include <cerrno>

#include "pmd_glue/kif/super_frame.h"

namespace uroce::glue::kif {

namespace {

/// The sink's longest chain: headers, payload of four places, trailer.
constexpr std::size_t kChain = 6;
/// UIO_MAXIOV: what one message may have.
constexpr std::size_t kMessageVectors = 1024;

/// Bytes of the socket's frames that have not left this host yet; 0 if the kernel does not tell.
uint32_t under_way(int fd) {
  int bytes = 0;
  return ioctl(fd, SIOCOUTQ, &bytes) == 0 ? static_cast<uint32_t>(std::max(bytes, 0)) : 0;
}

}  // namespace

Outbox::Outbox(bool super_frames) : vectors_(kMost * (kChain + 2)), super_frames_(super_frames) {
  static_assert(kMaxSegments * kChain + 2 <= kMessageVectors);
}

void Outbox::add_bytes(const rte_mbuf* mbuf, uint32_t skip) {
  assert(mbuf->nb_segs <= kChain);
  for (; mbuf != nullptr; mbuf = mbuf->next, skip = 0) {
    if (mbuf->data_len == skip) continue;
    vectors_[vectors_used_++] = {rte_pktmbuf_mtod_offset(mbuf, void*, skip), mbuf->data_len - size_t{skip}};
  }
}

// One refusal may have to do with these frames. A way out that takes none at all would refuse every one.
void Outbox::take_refusal(uint32_t alone) {
  alone_ = alone;
  if (++refusals_ == kMostRefusals) super_frames_.store(false, std::memory_order_relaxed);
}

bool Outbox::keep_dropped(int fd) { return below_.keep_dropped(under_way(fd), clock_.now()); }

uint16_t Outbox::send(int fd, std::span<rte_mbuf*> mbufs) {
  if (below_.waits() && below_.full(under_way(fd), clock_.now())) return 0;
  mbufs = mbufs.first(std::min(mbufs.size(), kMost));
  count_ = vectors_used_ = 0;
  for (std::size_t at = 0; at < mbufs.size(); at += frames_[count_ - 1]) {
    msghdr& message = headers_[count_].msg_hdr;
    message = {};
    message.msg_iov = next_part();
    frames_[count_] = describe(count_, message, mbufs.subspan(at), at >= alone_ && super_frames());
    message.msg_iovlen = static_cast<std::size_t>(next_part() - message.msg_iov);
    ++count_;
  }
  const uint16_t frames = send_messages(fd);
  alone_ -= std::min<uint32_t>(alone_, frames);
  rte_pktmbuf_free_bulk(mbufs.data(), frames);
  return frames;
}

uint16_t Outbox::send_messages(int fd) {
  std::size_t done = 0;
  uint16_t frames = 0;
  while (done < count_) {
    const int sent = sendmmsg(fd, &headers_[done], static_cast<unsigned>(count_ - done), MSG_DONTWAIT);
    for (int i = 0; i < sent; ++i, ++done) {
      frames += frames_[done];
      if (frames_[done] == 1) continue;
      refusals_ = 0;
      counters_.super_frames.add();
      counters_.super_segments.add(frames_[done]);
    }
    if (sent > 0) {
      below_.passed();
      continue;
    }
    const int error = errno;
    if (error == EAGAIN || error == EINTR) break;  // the socket is full
    if ((error == ENOBUFS || error == ENOMEM) && keep_dropped(fd)) break;
    if ((error == EINVAL || error == EIO) && frames_[done] > 1) {
      take_refusal(frames + frames_[done]);
      break;
    }
    counters_.dropped.add(frames_[done]);
    frames += frames_[done];
    ++done;
  }
  return frames;
}

}  // namespace uroce::glue::kif
