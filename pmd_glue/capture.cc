#include "pmd_glue/capture.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

namespace uroce::glue {

namespace {
constexpr auto kReleaseTimeout = std::chrono::seconds(5);
}

std::unexpected<Error> Capture::busy(const Port& port) {
  return fail(EBUSY, fmt::format("cannot capture on port {}: another capture is running; end it first", port.name()));
}

Result<std::unique_ptr<Capture>> Capture::start(const Port& port, std::span<const std::unique_ptr<Worker>> workers) {
  std::unique_ptr<Capture> capture(new Capture);
  for (const auto& worker : workers) {
    for (const auto& queue : worker->queues()) {
      if (&queue->port() != &port) continue;
      // Before there is memory: somebody may wait for the end of that capture, and asks often.
      if (queue->tapped()) return busy(port);
      capture->queues_.push_back({worker.get(), queue.get(), nullptr});
    }
  }
  capture->bytes_ = capture->queues_.size() * message::kCaptureStride;
  capture->fd_ = message::Fd(memfd_create("uroce-capture", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const int fd = capture->fd_.get();
  void* memory = MAP_FAILED;
  // Seal the memory so that the reader cannot take pages away. Touch it so that no engine waits for a page.
  if (fd >= 0 && ftruncate(fd, static_cast<off_t>(capture->bytes_)) == 0 &&
      fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0) {
    memory = mmap(nullptr, capture->bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
  }
  if (memory == MAP_FAILED) {
    return fail(ENOMEM,
                fmt::format("cannot allocate {} MiB for the capture: {}", capture->bytes_ >> 20, std::strerror(errno)));
  }
  capture->memory_ = static_cast<std::byte*>(memory);
  const TscClock clock;
  const auto wall = std::chrono::system_clock::now().time_since_epoch();
  capture->epoch_ns_ = static_cast<uint64_t>((std::chrono::duration_cast<Nanos>(wall) - clock.now()).count());
  std::byte* ring = capture->memory_;
  for (Tapped& one : capture->queues_) {
    auto tap = std::make_unique<FrameTap>(ring);
    ring += message::kCaptureStride;
    if (!one.queue->begin_tap(*tap)) return busy(port);
    one.tap = std::move(tap);
  }
  for (const Tapped& one : capture->queues_) {
    if (!wait_for(one, one.tap.get())) {
      return fail(ETIMEDOUT, fmt::format("cannot capture on port {}: an engine does not answer; is its lcore running?",
                                         port.name()));
    }
  }
  return capture;
}

Capture::~Capture() {
  for (const Tapped& one : queues_) {
    if (one.tap != nullptr) one.queue->end_tap();
  }
  bool idle = true;
  for (Tapped& one : queues_) {
    if (one.tap == nullptr || wait_for(one, nullptr)) continue;
    idle = false;
    (void)one.tap.release();  // an engine may still write through it
  }
  if (memory_ != nullptr && idle) munmap(memory_, bytes_);
}

bool Capture::wait_for(const Tapped& one, const FrameTap* tap) {
  const auto until = std::chrono::steady_clock::now() + kReleaseTimeout;
  while (one.queue->tap_in_use() != tap) {
    if (std::chrono::steady_clock::now() > until) return false;
    one.worker->waker().wake_always();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace uroce::glue
