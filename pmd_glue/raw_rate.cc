#include "pmd_glue/raw_rate.h"

#include <fmt/format.h>
#include <rte_ethdev.h>
#include <rte_launch.h>
#include <rte_mbuf.h>
#include <sched.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <thread>

#include "base/bytes.h"
#include "pmd_glue/clock.h"
#include "pmd_glue/eal.h"
#include "pmd_glue/fault_guard.h"
#include "pmd_glue/port.h"
#include "pmd_glue/ring_pair.h"
#include "pmd_glue/sink.h"

namespace uroce::glue {

namespace {

constexpr std::size_t kBurst = 32;
constexpr uint32_t kHeader = 60;
constexpr uint16_t kExperimental = 0x88b5;  // IEEE 802, local experimental EtherType 1
constexpr uint32_t kSpins = 64;
constexpr Nanos kIdleEnd = std::chrono::milliseconds(500);
constexpr Nanos kStopInterval = std::chrono::milliseconds(5);

/// Gives the core away after a while without work, because both ends may share it.
class PollingBackoff {
 public:
  void worked(bool worked) {
    if (worked) {
      empty_ = 0;
    } else if (++empty_ > kSpins) {
      sched_yield();
    }
  }

 private:
  uint32_t empty_ = 0;
};

class Sender {
 public:
  Sender(Port& port, uint32_t frame_bytes) : port_(port), path_(port, 0), bytes_(frame_bytes) {
    for (std::size_t i = 0; i < 6; ++i) store8(&header_[i], static_cast<uint8_t>(i == 0 ? 0x02 : i));
    std::memcpy(&header_[6], port.mac().bytes.data(), 6);
    store_be16(&header_[12], kExperimental);
  }
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
    if (rte_pktmbuf_alloc_bulk(port_.pool(), burst_.data(), kBurst) != 0) return false;
    pending_ = kBurst;
    for (rte_mbuf* mbuf : burst_) {
      std::memcpy(rte_pktmbuf_mtod(mbuf, void*), header_.data(), header_.size());
      mbuf->data_len = static_cast<uint16_t>(bytes_);
      mbuf->pkt_len = bytes_;
    }
    return true;
  }

  Port& port_;
  QueuePath path_;
  const uint32_t bytes_;
  std::size_t pending_ = 0;
  uint64_t sent_ = 0;
  std::array<std::byte, kHeader> header_{};
  std::array<rte_mbuf*, kBurst> burst_{};
};

class Receiver {
 public:
  explicit Receiver(Port& port) : port_(port) {}

  bool step(Nanos now) {
    std::array<rte_mbuf*, kBurst> burst{};
    volatile uint16_t received = 0;
    const auto take = [&] { received = rte_eth_rx_burst(port_.id(), 0, burst.data(), kBurst); };
    if (!port_.needs_guard()) {
      take();
    } else if (!guarded(take)) {
      return false;
    }
    const uint16_t count = received;
    if (count == 0) return false;
    for (uint16_t i = 0; i < count; ++i) {
      const auto* bytes = rte_pktmbuf_mtod(burst[i], const std::byte*);
      frames_ += burst[i]->data_len >= kHeader && load_be16(bytes + 12) == kExperimental ? 1 : 0;
    }
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
  uint64_t frames_ = 0;
  Nanos first_{0};
  Nanos last_{0};
};

std::unexpected<Error> interrupted() { return fail(EINTR, "interrupted before the first frame"); }

double seconds(Nanos time) { return std::chrono::duration<double>(time).count(); }

/// All of one run. Members are destroyed last to first.
struct Bench {
  const RawOptions& options;
  std::unique_ptr<Eal> eal{};
  std::unique_ptr<RingPair> rings{};
  std::vector<std::unique_ptr<Port>> ports{};
  std::atomic<bool> stop{false};
  Nanos next_ask{0};

  ~Bench() {
    for (const auto& port : ports) port->close();
  }

  /// True when the caller wants the run to end.
  bool ends(Nanos now) {
    if (!options.stop || now < next_ask) return false;
    next_ask = now + kStopInterval;
    return options.stop();
  }
  Result<void> open();
  Result<void> wait_for_links(const TscClock& clock);
  Result<RawRate> send(const TscClock& clock);
  Result<RawRate> receive(const TscClock& clock);
  Result<RawRate> both(const TscClock& clock);
};

Result<void> Bench::open() {
  if (options.back_to_back) {
    auto pair = RingPair::make(1, options.tx_descriptors);
    if (!pair) return std::unexpected(pair.error());
    rings = std::move(*pair);
  }
  PortOptions port_options;
  port_options.mtu = options.mtu;
  port_options.rx_descriptors = static_cast<uint16_t>(options.rx_descriptors);
  port_options.tx_descriptors = static_cast<uint16_t>(options.tx_descriptors);
  const auto next = [](uint64_t id) { return rte_eth_find_next_owned_by(static_cast<uint16_t>(id), 0); };
  for (uint64_t id = next(0); id < RTE_MAX_ETHPORTS; id = next(id + 1)) {
    auto port = Port::open(static_cast<uint16_t>(id), port_options);
    if (!port) return std::unexpected(port.error());
    ports.push_back(std::move(*port));
  }
  const std::size_t needed = options.role == RawRole::both ? 2 : 1;
  if (ports.size() < needed) {
    return fail(ENODEV, fmt::format("raw_bw needs {} port(s), but EAL finds {}; name them with --vdev or -a", needed,
                                    ports.size()));
  }
  if (options.frame_bytes < kHeader || options.frame_bytes > ports[0]->max_frame()) {
    return fail(
        EINVAL,
        fmt::format("port {1} cannot carry frames of {0} bytes; its range is {2} to {3}; set another size or mtu",
                    options.frame_bytes, ports[0]->name(), kHeader, ports[0]->max_frame()));
  }
  for (const auto& port : ports) {
    if (port->needs_guard()) install_fault_guard();
    if (auto ok = port->start(); !ok) return ok;
  }
  return {};
}

Result<void> Bench::wait_for_links(const TscClock& clock) {
  const Nanos until = clock.now() + options.timeout;
  for (const auto& port : ports) {
    while (!port->link_up()) {
      if (clock.now() > until) {
        return fail(ETIMEDOUT, fmt::format("port {} was down for {:.0f} s; is the other end there?", port->name(),
                                           seconds(options.timeout)));
      }
      if (ends(clock.now())) return interrupted();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      port->refresh_link();
    }
  }
  return {};
}

Result<RawRate> Bench::send(const TscClock& clock) {
  Sender sender(*ports[0], options.frame_bytes);
  PollingBackoff backoff;
  const Nanos start = clock.now();
  Nanos now = start;
  for (; now - start < options.duration && !ends(now); now = clock.now()) backoff.worked(sender.step());
  return RawRate{sender.sent(), options.frame_bytes, seconds(now - start)};
}

Result<RawRate> Bench::receive(const TscClock& clock) {
  Receiver receiver(*ports[0]);
  PollingBackoff backoff;
  const Nanos start = clock.now();
  for (Nanos now = start;; now = clock.now()) {
    backoff.worked(receiver.step(now));
    const bool end = ends(now);
    if (receiver.frames() == 0) {
      if (end) return interrupted();
      if (now - start < options.timeout) continue;
      return fail(ETIMEDOUT, fmt::format("port {} received nothing for {:.0f} s; is the other end sending?",
                                         ports[0]->name(), seconds(options.timeout)));
    }
    if (end || now - receiver.first() >= options.duration || now - receiver.last() > kIdleEnd) break;
  }
  return RawRate{receiver.frames(), options.frame_bytes, seconds(receiver.last() - receiver.first())};
}

Result<RawRate> Bench::both(const TscClock& clock) {
  struct Job {
    Sender sender;
    std::atomic<bool>& stop;
  } job{Sender(*ports[0], options.frame_bytes), stop};
  const bool two_cores = !eal->workers().empty();
  if (two_cores) {
    const auto main = [](void* argument) {
      auto* own = static_cast<Job*>(argument);
      PollingBackoff backoff;
      while (!own->stop.load(std::memory_order_relaxed)) backoff.worked(own->sender.step());
      return 0;
    };
    rte_eal_remote_launch(main, &job, eal->workers()[0]);
  }
  Receiver receiver(*ports[1]);
  PollingBackoff backoff;
  const Nanos start = clock.now();
  for (Nanos now = start; now - start < options.duration && !ends(now); now = clock.now()) {
    const bool sent = !two_cores && job.sender.step();
    backoff.worked(receiver.step(now) || sent);
  }
  stop.store(true, std::memory_order_relaxed);
  if (two_cores) rte_eal_wait_lcore(eal->workers()[0]);
  return RawRate{receiver.frames(), options.frame_bytes, seconds(receiver.last() - receiver.first())};
}

}  // namespace

Result<RawRate> run_raw(const std::vector<std::string>& eal_args, const RawOptions& options) {
  auto eal = Eal::start(eal_args);
  if (!eal) return std::unexpected(eal.error());
  Bench bench{.options = options, .eal = std::move(*eal)};
  if (auto ok = bench.open(); !ok) return std::unexpected(ok.error());
  const TscClock clock;
  if (auto ok = bench.wait_for_links(clock); !ok) return std::unexpected(ok.error());
  switch (options.role) {
    case RawRole::send: return bench.send(clock);
    case RawRole::receive: return bench.receive(clock);
    case RawRole::both: return bench.both(clock);
  }
  return fail(EINVAL, "unknown role; choose send, receive or both");
}

}  // namespace uroce::glue
