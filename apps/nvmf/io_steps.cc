#include "nvmf/io_steps.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>

#include "nvmf/sizes.h"

namespace uroce::nvmf {

namespace {

using Step = Io::Step;

/// read(2) and write(2) move no more at once, and more is no madvise(2) of io_uring's.
constexpr uint64_t kMostAtOnce = 1u << 30;

/// The zeroes that are written. O_DIRECT needs them on a page.
alignas(nvme::kPageBytes) std::byte zeroes[kTransferBytes];

uint32_t part_of(const Io& io, uint64_t length) {
  return static_cast<uint32_t>(std::min(length - io.finished, kMostAtOnce));
}

Step first_step(const Io& io) {
  switch (io.op) {
    case Io::Op::read:
    case Io::Op::write: return Step::move;
    case Io::Op::flush: return Step::sync;
    case Io::Op::write_zeroes: return io.fd < 0 ? Step::drop_pages : Step::zero_range;
    case Io::Op::deallocate: return io.fd < 0 ? Step::drop_pages : Step::punch_hole;
  }
  return Step::sync;
}

std::optional<int> end_move(Io& io, int result) {
  io.finished += static_cast<uint32_t>(result);
  if (io.finished == io.length) return 0;
  if (result == 0) return EIO;  // the file has become shorter
  return std::nullopt;
}

std::optional<int> go_on(Io& io, Step step) {
  io.step = step;
  io.finished = 0;
  return std::nullopt;
}

/// fallocate(2) changes what a journal or a cache still holds.
std::optional<int> end_zeroes(Io& io, int error) {
  return error == 0 && io.force_unit_access ? go_on(io, Step::sync) : error;
}

}  // namespace

void begin_steps(Io& io) {
  io.finished = 0;
  io.step = first_step(io);
}

void prepare_step(io_uring_sqe* sqe, const Io& io) {
  switch (io.step) {
    case Step::move: {
      const uint32_t length = part_of(io, io.length);
      if (io.op == Io::Op::read) {
        return io_uring_prep_read(sqe, io.fd, io.data + io.finished, length, io.offset + io.finished);
      }
      io_uring_prep_write(sqe, io.fd, io.data + io.finished, length, io.offset + io.finished);
      if (io.force_unit_access) sqe->rw_flags = RWF_DSYNC;
      return;
    }
    case Step::zero_range:
      return io_uring_prep_fallocate(sqe, io.fd, FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE, io.offset, io.length);
    case Step::punch_hole:
      return io_uring_prep_fallocate(sqe, io.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, io.offset, io.length);
    case Step::write_zeroes: {
      const auto length = static_cast<uint32_t>(std::min<uint64_t>(io.length - io.finished, sizeof zeroes));
      return io_uring_prep_write(sqe, io.fd, zeroes, length, io.offset + io.finished);
    }
    case Step::drop_pages:
      if (io.pages_bytes == 0) return io_uring_prep_nop(sqe);
      return io_uring_prep_madvise(sqe, io.pages + io.finished, part_of(io, io.pages_bytes), MADV_DONTNEED);
    case Step::sync: return io_uring_prep_fsync(sqe, io.fd, IORING_FSYNC_DATASYNC);
  }
}

std::optional<int> end_step(Io& io, int result) {
  const int error = result < 0 ? -result : 0;
  if (error == EINTR || error == EAGAIN) return std::nullopt;
  switch (io.step) {
    case Step::move: return error != 0 ? error : end_move(io, result);
    case Step::zero_range:
      // Not every file system can zero a range without making a hole of it.
      return error == EOPNOTSUPP ? go_on(io, Step::punch_hole) : end_zeroes(io, error);
    case Step::punch_hole:
      // Deallocate is a hint (NVMe 1.4, 6.7): a file that cannot have holes keeps its bytes.
      if (error == EOPNOTSUPP && io.op == Io::Op::deallocate) return 0;
      return error == EOPNOTSUPP ? go_on(io, Step::write_zeroes) : end_zeroes(io, error);
    case Step::write_zeroes: {
      const auto end = error != 0 ? error : end_move(io, result);
      return end ? end_zeroes(io, *end) : end;
    }
    case Step::drop_pages:
      if (error != 0 || io.pages_bytes == 0) return error;
      io.finished += part_of(io, io.pages_bytes);
      if (io.finished == io.pages_bytes) return 0;
      return std::nullopt;
    case Step::sync: return error;
  }
  return error;
}

}  // namespace uroce::nvmf
