#include "pmd_glue/raw_latency.h"

#include <fmt/format.h>
#include <rte_launch.h>

#include <array>
#include <atomic>
#include <cerrno>

#include "base/bytes.h"
#include "pmd_glue/raw_ports.h"
#include "pmd_glue/sink.h"

namespace uroce::glue {

namespace {

/// A frame lost is sent again after this time.
constexpr Nanos kLost = std::chrono::milliseconds(100);
/// The number of a frame, and 1 on its way back.
constexpr std::size_t kNumberOffset = kRawContents, kAnswerOffset = kRawContents + 8;
static_assert(kAnswerOffset < kRawHeader);

/// One end: a port, and one frame at a time to send.
class End {
 public:
  End(Port& port, uint32_t bytes) : port_(port), path_(port, 0), headers_(port, bytes), bytes_(bytes) {}

  bool send(uint64_t number, bool answer) {
    rte_mbuf* mbuf = rte_pktmbuf_alloc(port_.pool());
    if (mbuf == nullptr) return false;
    auto* const at = rte_pktmbuf_mtod(mbuf, std::byte*);
    headers_.store(at);
    store_be64(at + kNumberOffset, number);
    store8(at + kAnswerOffset, answer ? 1 : 0);
    mbuf->data_len = static_cast<uint16_t>(bytes_);
    mbuf->pkt_len = bytes_;
    if (path_.push({&mbuf, 1}) == 1) return true;
    rte_pktmbuf_free(mbuf);
    return false;
  }
  /// Calls `take(number)` for each frame of the test that goes in the direction `answer`. True if there was any.
  template <class Take>
  bool receive(bool answer, Take take) {
    std::array<rte_mbuf*, kRawBurst> burst{};
    const uint16_t count = receive_burst(port_, burst);
    bool any = false;
    for (uint16_t i = 0; i < count; ++i) {
      const auto* const at = rte_pktmbuf_mtod(burst[i], const std::byte*);
      if (!is_raw_frame({at, burst[i]->data_len}) || (load8(at + kAnswerOffset) != 0) != answer) continue;
      take(load_be64(at + kNumberOffset));
      any = true;
    }
    rte_pktmbuf_free_bulk(burst.data(), count);
    return any;
  }

 private:
  Port& port_;
  QueuePath path_;
  RawHeaders headers_;
  const uint32_t bytes_;
};

/// Sends a frame, waits until it is back, and sends the next.
class Pinger {
 public:
  Pinger(Port& port, const RawOptions& options, const RoundTripTaker& taker)
      : end_(port, options.frame_bytes), taker_(taker) {}

  bool step(const RawPorts& ports) {
    const Nanos now = ports.now();
    if (out_) {
      const bool any = receive(ports);
      // Only now: where this thread stood still, the frame may have waited for it.
      if (!out_ || now - sent_ <= kLost) return any;
      ++result_.lost;
    }
    // A frame that comes late must not count for the next one.
    out_ = end_.send(++number_, false);
    if (!out_) return false;
    sent_ = now;
    if (begin_ == Nanos(0)) begin_ = now;
    return true;
  }
  Nanos last_heard(Nanos start) const { return std::max(start, last_); }
  uint64_t round_trips() const { return result_.round_trips; }
  RawLatency result() const {
    RawLatency result = result_;
    result.seconds = to_seconds(last_ - begin_);
    return result;
  }

 private:
  bool receive(const RawPorts& ports) {
    return end_.receive(true, [&](uint64_t number) {
      if (number != number_ || !out_) return;
      out_ = false;
      last_ = ports.now();
      ++result_.round_trips;
      taker_(last_ - sent_);
    });
  }

  End end_;
  const RoundTripTaker& taker_;
  RawLatency result_{};
  uint64_t number_ = 0;
  bool out_ = false;
  Nanos begin_{0}, sent_{0}, last_{0};
};

/// Sends each frame back.
class Echo {
 public:
  Echo(Port& port, const RawOptions& options) : end_(port, options.frame_bytes) {}

  bool step() {
    return end_.receive(false, [&](uint64_t number) { answered_ += end_.send(number, true) ? 1 : 0; });
  }
  uint64_t answered() const { return answered_; }

 private:
  End end_;
  uint64_t answered_ = 0;
};

std::unexpected<Error> silent(const Port& port, const RawOptions& options) {
  return fail(ETIMEDOUT, fmt::format("port {} received nothing for {:.0f} s; is the other end there?", port.name(),
                                     to_seconds(options.timeout)));
}

/// Steps until there have been enough round trips. `also` is another step of the same thread.
template <class Also>
Result<RawLatency> ping(RawPorts& ports, const RawOptions& options, uint64_t round_trips, const RoundTripTaker& taker,
                        Also also) {
  Pinger pinger(ports.first(), options, taker);
  PollingBackoff backoff(options.busy);
  const Nanos start = ports.now();
  for (Nanos now = start;; now = ports.now()) {
    const bool pinged = pinger.step(ports);
    backoff.worked(also() || pinged);
    ports.tell_start(pinger.round_trips() != 0);
    if (round_trips != 0 ? pinger.round_trips() >= round_trips : now - start >= options.duration) break;
    if (ports.ends(now)) {
      if (pinger.round_trips() == 0) return fail(EINTR, "interrupted before the first round trip");
      break;
    }
    if (now - pinger.last_heard(start) > options.timeout) return silent(ports.first(), options);
  }
  return pinger.result();
}

Result<RawLatency> answer(RawPorts& ports, const RawOptions& options) {
  Echo echo(ports.first(), options);
  PollingBackoff backoff(options.busy);
  const Nanos start = ports.now();
  Nanos heard = start;
  for (Nanos now = start; !ports.ends(now); now = ports.now()) {
    const bool worked = echo.step();
    backoff.worked(worked);
    ports.tell_start(echo.answered() != 0);
    if (worked) heard = now;
    if (now - heard > options.timeout) return silent(ports.first(), options);
  }
  return RawLatency{echo.answered(), 0, to_seconds(heard - start)};
}

Result<RawLatency> both(RawPorts& ports, const RawOptions& options, uint64_t round_trips, const RoundTripTaker& taker) {
  struct Job {
    Echo echo;
    PollingBackoff backoff;
    std::atomic<bool> stop{false};
  } job{Echo(ports.second(), options), PollingBackoff(options.busy)};
  if (ports.workers().empty()) return ping(ports, options, round_trips, taker, [&] { return job.echo.step(); });
  const auto main = [](void* argument) {
    auto* own = static_cast<Job*>(argument);
    while (!own->stop.load(std::memory_order_relaxed)) own->backoff.worked(own->echo.step());
    return 0;
  };
  rte_eal_remote_launch(main, &job, ports.workers()[0]);
  auto result = ping(ports, options, round_trips, taker, [] { return false; });
  job.stop.store(true, std::memory_order_relaxed);
  rte_eal_wait_lcore(ports.workers()[0]);
  return result;
}

}  // namespace

Result<RawLatency> run_raw_latency(const std::vector<std::string>& eal_args, const RawOptions& options,
                                   uint64_t round_trips, const RoundTripTaker& taker) {
  auto ports = RawPorts::open(eal_args, options);
  if (!ports) return std::unexpected(ports.error());
  switch (options.role) {
    case RawRole::send: return ping(**ports, options, round_trips, taker, [] { return false; });
    case RawRole::receive: return answer(**ports, options);
    case RawRole::both: return both(**ports, options, round_trips, taker);
  }
  return fail(EINVAL, "unknown role; choose send, receive or both");
}

}  // namespace uroce::glue
