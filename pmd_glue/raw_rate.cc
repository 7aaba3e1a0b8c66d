#include "pmd_glue/raw_rate.h"

#include <fmt/format.h>
#include <rte_launch.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "pmd_glue/kif/super_frame.h"
#include "pmd_glue/raw_ports.h"
#include "pmd_glue/sink.h"

namespace uroce::glue {

namespace {

constexpr Nanos kIdleEnd = std::chrono::milliseconds(500);

/// As many as a super-frame has at most.
constexpr std::size_t kJoinedBurst = kif::kMaxSegments;

/// Frames of which only the header is written and read.
class PlainFrames final : public RawFrames {
 public:
  PlainFrames(const Port& sender, uint32_t frame_bytes) : headers_(sender, frame_bytes) {}
  void fill(std::span<const std::span<std::byte>> frames) override {
    for (const auto& frame : frames) headers_.store(frame.data());
  }
  uint64_t take(std::span<const std::span<const std::byte>> frames) override {
    return static_cast<uint64_t>(std::ranges::count_if(frames, is_raw_frame));
  }

 private:
  RawHeaders headers_;
};

class Sender {
 public:
  Sender(Port& port, uint32_t frame_bytes, RawFrames& frames)
      : port_(port),
        path_(port, 0),
        bytes_(frame_bytes),
        burst_size_(port.joins_frames() ? kJoinedBurst : kRawBurst),
        frames_(frames) {}
  ~Sender() { rte_pktmbuf_free_bulk(burst_.data(), static_cast<unsigned>(pending_)); }

  /// Sends one burst. True when any frame was taken.
  bool step() {
    if (pending_ == 0 && !build()) return false;
    const std::size_t sent = path_.push({burst_.data(), pending_});
    sent_ += sent;
    pending_ -= sent;
    std::memmove(burst_.data(), burst_.data() + sent, pending_ * sizeof(rte_mbuf*));
    return sent != 0;
  }
  uint64_t sent() const { return sent_; }

 private:
  bool build() {
    if (rte_pktmbuf_alloc_bulk(port_.pool(), burst_.data(), static_cast<unsigned>(burst_size_)) != 0) return false;
    pending_ = burst_size_;
    std::array<std::span<std::byte>, kJoinedBurst> contents;
    for (std::size_t i = 0; i < burst_size_; ++i) {
      rte_mbuf* const mbuf = burst_[i];
      mbuf->data_len = static_cast<uint16_t>(bytes_);
      mbuf->pkt_len = bytes_;
      contents[i] = {rte_pktmbuf_mtod(mbuf, std::byte*), bytes_};
    }
    frames_.fill({contents.data(), burst_size_});
    return true;
  }

  Port& port_;
  QueuePath path_;
  const uint32_t bytes_;
  const std::size_t burst_size_;
  RawFrames& frames_;
  std::size_t pending_ = 0;
  uint64_t sent_ = 0;
  std::array<rte_mbuf*, kJoinedBurst> burst_{};
};

class Receiver {
 public:
  Receiver(Port& port, RawFrames& contents) : port_(port), contents_(contents) {}

  bool step(Nanos now) {
    std::array<rte_mbuf*, kRawBurst> burst{};
    const uint16_t count = receive_burst(port_, burst);
    if (count == 0) return false;
    std::array<std::span<const std::byte>, kRawBurst> contents;
    for (uint16_t i = 0; i < count; ++i) {
      contents[i] = {rte_pktmbuf_mtod(burst[i], const std::byte*), burst[i]->data_len};
    }
    frames_ += contents_.take({contents.data(), count});
    rte_pktmbuf_free_bulk(burst.data(), count);
    if (frames_ == 0) return true;
    if (first_ == Nanos(0)) first_ = now;
    last_ = now;
    return true;
  }
  uint64_t frames() const { return frames_; }
  Nanos first() const { return first_; }
  Nanos last() const { return last_; }

 private:
  Port& port_;
  RawFrames& contents_;
  uint64_t frames_ = 0;
  Nanos first_{0};
  Nanos last_{0};
};

Result<RawRate> send(RawPorts& ports, const RawOptions& options, RawFrames& frames) {
  Sender sender(ports.first(), options.frame_bytes, frames);
  PollingBackoff backoff(options.busy);
  const Nanos start = ports.now();
  Nanos now = start;
  for (; now - start < options.duration && !ports.ends(now); now = ports.now()) {
    backoff.worked(sender.step());
    ports.tell_start(sender.sent() != 0);
  }
  return RawRate{sender.sent(), options.frame_bytes, to_seconds(now - start)};
}

Result<RawRate> receive(RawPorts& ports, const RawOptions& options, RawFrames& frames) {
  Receiver receiver(ports.first(), frames);
  PollingBackoff backoff(options.busy);
  const Nanos start = ports.now();
  for (Nanos now = start;; now = ports.now()) {
    backoff.worked(receiver.step(now));
    ports.tell_start(receiver.frames() != 0);
    const bool end = ports.ends(now);
    if (receiver.frames() == 0) {
      if (end) return fail(EINTR, "interrupted before the first frame");
      if (now - start < options.timeout) continue;
      return fail(ETIMEDOUT, fmt::format("port {} received nothing for {:.0f} s; is the other end sending?",
                                         ports.first().name(), to_seconds(options.timeout)));
    }
    if (end || now - receiver.first() >= options.duration || now - receiver.last() > kIdleEnd) break;
  }
  return RawRate{receiver.frames(), options.frame_bytes, to_seconds(receiver.last() - receiver.first())};
}

Result<RawRate> both(RawPorts& ports, const RawOptions& options, RawFrames& frames) {
  struct Job {
    Sender sender;
    PollingBackoff backoff;
    std::atomic<bool> stop{false};
  } job{Sender(ports.first(), options.frame_bytes, frames), PollingBackoff(options.busy)};
  const bool two_cores = !ports.workers().empty();
  if (two_cores) {
    const auto main = [](void* argument) {
      auto* own = static_cast<Job*>(argument);
      while (!own->stop.load(std::memory_order_relaxed)) own->backoff.worked(own->sender.step());
      return 0;
    };
    rte_eal_remote_launch(main, &job, ports.workers()[0]);
  }
  Receiver receiver(ports.second(), frames);
  PollingBackoff backoff(options.busy);
  const Nanos start = ports.now();
  for (Nanos now = start; now - start < options.duration && !ports.ends(now); now = ports.now()) {
    const bool sent = !two_cores && job.sender.step();
    backoff.worked(receiver.step(now) || sent);
    ports.tell_start(receiver.frames() != 0);
  }
  job.stop.store(true, std::memory_order_relaxed);
  if (two_cores) rte_eal_wait_lcore(ports.workers()[0]);
  if (receiver.frames() == 0) {
    return fail(ETIMEDOUT, fmt::format("port {} received none of the {} frames that {} sent", ports.second().name(),
                                       job.sender.sent(), ports.first().name()));
  }
  return RawRate{receiver.frames(), options.frame_bytes, to_seconds(receiver.last() - receiver.first())};
}

}  // namespace

Result<RawRate> run_raw(const std::vector<std::string>& eal_args, const RawOptions& options, RawFrames* frames) {
  auto ports = RawPorts::open(eal_args, options);
  if (!ports) return std::unexpected(ports.error());
  PlainFrames plain((*ports)->first(), options.frame_bytes);
  RawFrames& contents = frames != nullptr ? *frames : plain;
  switch (options.role) {
    case RawRole::send: return send(**ports, options, contents);
    case RawRole::receive: return receive(**ports, options, contents);
    case RawRole::both: return both(**ports, options, contents);
  }
  return fail(EINVAL, "unknown role; choose send, receive or both");
}

}  // namespace uroce::glue
