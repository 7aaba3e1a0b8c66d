#include "nvmf/io_ring.h"

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "nvmf/io_steps.h"

namespace uroce::nvmf {

using namespace std::chrono_literals;

namespace {

constexpr uint32_t kBatch = 32;

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
  begin_steps(io);
  ++outstanding_;
  // done() of one that ended may be the caller: those that wait longer go first.
  first_waiting_ == nullptr ? start(io) : wait(io);
}

void IoRing::wait(Io& io) {
  io.next = nullptr;
  (first_waiting_ == nullptr ? first_waiting_ : last_waiting_->next) = &io;
  last_waiting_ = &io;
}

void IoRing::start(Io& io) {
  io_uring_sqe* const sqe = in_ring_ < entries_ ? io_uring_get_sqe(&ring_) : nullptr;
  if (sqe == nullptr) return wait(io);
  prepare_step(sqe, io);
  io_uring_sqe_set_data(sqe, &io);
  ++prepared_;
  ++in_ring_;
}

void IoRing::finish(Io& io, int result) {
  --in_ring_;
  const auto error = end_step(io, result);
  if (error) return end(io, *error);
  if (draining_) return end(io, ECANCELED);
  start(io);
}

void IoRing::end(Io& io, int error) {
  --outstanding_;
  io.client->done(io, error);
}

void IoRing::cancel() {
  io_uring_sqe* const sqe = io_uring_get_sqe(&ring_);
  if (sqe == nullptr) return;
  io_uring_prep_cancel(sqe, nullptr, IORING_ASYNC_CANCEL_ANY);
  io_uring_sqe_set_data(sqe, nullptr);
  ++prepared_;
}

bool IoRing::drain(std::chrono::milliseconds limit) {
  constexpr std::chrono::milliseconds kStep{10};
  draining_ = true;
  while (first_waiting_ != nullptr) end(*std::exchange(first_waiting_, first_waiting_->next), ECANCELED);
  poll();  // so that the kernel knows all others
  for (auto waited = 0ms; outstanding_ > 0 && waited <= limit; waited += kStep) {
    if (waited % 100ms == 0ms) cancel();
    poll();
    __kernel_timespec rest{.tv_sec = 0, .tv_nsec = std::chrono::nanoseconds(kStep).count()};
    io_uring_cqe* ended = nullptr;
    if (outstanding_ > 0) (void)io_uring_wait_cqe_timeout(&ring_, &ended, &rest);
  }
  return outstanding_ == 0;
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
  for (unsigned i = 0; i < count; ++i) {
    if (results[i].first != nullptr) finish(*results[i].first, results[i].second);  // null: that of cancel()
  }
  return count > 0;
}

}  // namespace uroce::nvmf
