#include "nvmf/io_ring.h"

#include <fcntl.h>
#include <linux/falloc.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

namespace uroce::nvmf {

namespace {

constexpr uint32_t kBatch = 32;
/// read(2) and write(2) move no more at once.
constexpr uint64_t kMostAtOnce = 1u << 30;

void prepare(io_uring_sqe* sqe, const Io& io) {
  std::byte* const data = io.data + io.finished;
  const auto length = static_cast<uint32_t>(std::min(io.length - io.finished, kMostAtOnce));
  const uint64_t offset = io.offset + io.finished;
  switch (io.op) {
    case Io::Op::read: io_uring_prep_read(sqe, io.fd, data, length, offset); return;
    case Io::Op::write:
      io_uring_prep_write(sqe, io.fd, data, length, offset);
      if (io.force_unit_access) sqe->rw_flags = RWF_DSYNC;
      return;
    case Io::Op::flush: io_uring_prep_fsync(sqe, io.fd, IORING_FSYNC_DATASYNC); return;
    case Io::Op::write_zeroes:
    case Io::Op::deallocate: break;
  }
  // `finished` counts what was tried: not every file system can zero a range without making a hole of it.
  const bool zero = io.op == Io::Op::write_zeroes && io.finished == 0;
  const int mode = (zero ? FALLOC_FL_ZERO_RANGE : FALLOC_FL_PUNCH_HOLE) | FALLOC_FL_KEEP_SIZE;
  io_uring_prep_fallocate(sqe, io.fd, mode, io.offset, io.length);
}

}  // namespace

Result<IoRing> IoRing::open(uint32_t entries) {
  IoRing ring;
  if (const int error = io_uring_queue_init(entries, &ring.ring_, 0); error != 0) {
    return fail(-error,
                "cannot set up an io_uring of " + std::to_string(entries) + " entries: " + std::strerror(-error));
  }
  ring.open_ = true;
  ring.entries_ = entries;
  return ring;
}

IoRing::IoRing(IoRing&& other) noexcept
    : ring_(other.ring_), open_(std::exchange(other.open_, false)), entries_(other.entries_) {}

IoRing::~IoRing() {
  if (open_) io_uring_queue_exit(&ring_);
}

void IoRing::submit(Io& io, int fd) {
  io.fd = fd;
  io.finished = 0;
  ++outstanding_;
  start(io);
}

void IoRing::start(Io& io) {
  io_uring_sqe* const sqe = in_ring_ < entries_ ? io_uring_get_sqe(&ring_) : nullptr;
  if (sqe == nullptr) {
    io.next = nullptr;
    (first_waiting_ == nullptr ? first_waiting_ : last_waiting_->next) = &io;
    last_waiting_ = &io;
    return;
  }
  prepare(sqe, io);
  io_uring_sqe_set_data(sqe, &io);
  ++prepared_;
  ++in_ring_;
}

void IoRing::finish(Io& io, int result) {
  --in_ring_;
  const bool moves = io.op == Io::Op::read || io.op == Io::Op::write;
  int error = result < 0 ? -result : 0;
  if (error == EINTR || error == EAGAIN) return start(io);
  if (moves && error == 0) {
    io.finished += static_cast<uint32_t>(result);
    if (result > 0 && io.finished < io.length) return start(io);
    if (io.finished < io.length) error = EIO;  // the file has become shorter
  }
  if (io.op == Io::Op::write_zeroes && error == EOPNOTSUPP && io.finished == 0) {
    io.finished = 1;
    return start(io);
  }
  // Deallocate is a hint (NVMe 1.4, 6.7): a file that cannot have holes keeps its bytes.
  if (io.op == Io::Op::deallocate && error == EOPNOTSUPP) error = 0;
  --outstanding_;
  io.client->done(io, error);
}

void IoRing::start_waiting() {
  while (first_waiting_ != nullptr && in_ring_ < entries_ && io_uring_sq_space_left(&ring_) > 0) {
    start(*std::exchange(first_waiting_, first_waiting_->next));
  }
}

bool IoRing::poll() {
  start_waiting();
  // When the kernel has no memory for them now, they stay in the ring until the next call.
  if (prepared_ > 0) {
    const int taken = io_uring_submit(&ring_);
    if (taken > 0) prepared_ -= static_cast<uint32_t>(taken);
  }
  io_uring_cqe* ended[kBatch];
  const unsigned count = io_uring_peek_batch_cqe(&ring_, ended, kBatch);
  std::pair<Io*, int> results[kBatch];
  for (unsigned i = 0; i < count; ++i) results[i] = {static_cast<Io*>(io_uring_cqe_get_data(ended[i])), ended[i]->res};
  io_uring_cq_advance(&ring_, count);
  for (unsigned i = 0; i < count; ++i) finish(*results[i].first, results[i].second);
  return count > 0;
}

}  // namespace uroce::nvmf
