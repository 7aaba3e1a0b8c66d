#include "uroce/frame_source.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <utility>

#include "client/daemon_link.h"
#include "ending/end_signals.h"
#include "message/capture_ring.h"
#include "message/device_messages.h"
#include "net/address.h"
#include "uroce/daemon_process.h"
#include "wire/packet.h"

namespace uroce::cli {

// Named, because FrameSource::Parts is made of these.
namespace live {

using client::DaemonLink;
using message::CaptureRecord;
using message::CaptureRing;
using message::Op;
using Clock = std::chrono::steady_clock;

constexpr auto kNap = std::chrono::milliseconds(2);
constexpr auto kLook = std::chrono::milliseconds(100);
// Queue pair 1, the connection manager's, and the number that multicast packets name: no list of queue pairs has them.
constexpr uint32_t kCmQpn = 1, kMulticastQpn = 0xffffff;

/// Finds the frames of one queue pair. A sent frame does not name its sender, but its sender's peer.
class QpFilter {
 public:
  QpFilter(Source source, std::optional<uint32_t> qpn) : source_(std::move(source)), qpn_(qpn) {}

  /// Called now and then, because the queue pair may connect or go during the capture. Errors: ETIMEDOUT. Others pass,
  /// as when the daemon has no room for another client.
  Result<void> look(Clock::time_point now) {
    if (!qpn_ || now < next_look_) return {};
    next_look_ = now + kLook;
    const auto rows = fetch_objects(source_, message::Kind::qp);
    if (!rows && rows.error().code == ETIMEDOUT) return std::unexpected(rows.error());
    if (!rows) return {};
    looked_ = true;
    found_ = *qpn_ == kCmQpn || *qpn_ == kMulticastQpn;
    for (const ObjectRow& row : *rows) {
      uint32_t qpn = 0, dest = 0;
      std::string dgid;
      for (const auto& [name, value] : row.values) {
        if (name == "qpn") qpn = static_cast<uint32_t>(std::strtoul(value.c_str(), nullptr, 0));
        if (name == "dest_qpn") dest = static_cast<uint32_t>(std::strtoul(value.c_str(), nullptr, 0));
        if (name == "dgid") dgid = value;
      }
      found_ |= qpn == *qpn_ || (dest == *qpn_ && dest != 0);
      if (qpn != *qpn_) continue;
      peer_qpn_ = dest;
      peer_ = dgid;
    }
    return {};
  }
  /// As of the last look that succeeded: the device has the queue pair, or one that is connected to it.
  bool found() const { return !qpn_ || !looked_ || found_; }
  bool wants(std::span<const std::byte> frame, bool outbound) const {
    if (!qpn_) return true;
    const auto packet = wire::parse(frame, wire::Icrc::skip);
    if (!packet) return false;
    if (packet->bth.dest_qpn == *qpn_) return true;
    if (packet->op().flags.has(wire::Op::deth)) return packet->deth.src_qpn == *qpn_;
    return outbound && peer_qpn_ != 0 && packet->bth.dest_qpn == peer_qpn_ &&
           net::to_text(packet->destination()) == peer_;
  }

 private:
  const Source source_;
  const std::optional<uint32_t> qpn_;
  Clock::time_point next_look_{};
  bool looked_ = false, found_ = false;
  uint32_t peer_qpn_ = 0;
  std::string peer_;
};

/// The reader's end of one ring.
class RingReader {
 public:
  explicit RingReader(std::byte* ring)
      : head_(*reinterpret_cast<CaptureRing*>(ring)), records_(ring + message::kCaptureHeader) {}

  uint64_t dropped() const { return head_.dropped.load(std::memory_order_relaxed); }
  /// The oldest frame, valid until pop(); empty for none.
  std::span<const std::byte> front(CaptureRecord& record) {
    while (position_ != head_.written.load(std::memory_order_acquire)) {
      const uint64_t offset = position_ & (message::kCaptureBytes - 1);
      const uint64_t to_end = message::kCaptureBytes - offset;
      if (to_end >= sizeof record) std::memcpy(&record, records_ + offset, sizeof record);
      if (to_end < sizeof record || record.length == message::kCaptureSkip) {
        release(to_end);
        continue;
      }
      return {records_ + offset + sizeof record, record.length};
    }
    return {};
  }
  void pop(const CaptureRecord& record) { release(message::capture_record_bytes(record.length)); }

 private:
  void release(uint64_t bytes) {
    position_ += bytes;
    head_.read.store(position_, std::memory_order_release);
  }

  CaptureRing& head_;
  std::byte* const records_;
  uint64_t position_ = 0;
};

struct Rings {
  std::unique_ptr<DaemonLink> link;  // the capture ends with it
  message::Fd fd;
  uint64_t epoch_ns = 0;
  std::vector<RingReader> readers;
};

static Result<Rings> begin(const Source& source, std::string& device) {
  Rings rings;
  auto link = DaemonLink::open({.socket = source.socket});
  if (!link) return std::unexpected(link.error());
  rings.link = std::move(*link);
  if (device.empty()) {
    if (rings.link->devices().size() != 1) {
      return fail(EINVAL, "the daemon has several devices; name one with --device (`uroce devices` lists them)");
    }
    device = rings.link->devices().front().name;
  }
  std::vector<message::Fd> fds;
  auto reply = rings.link->call<message::CaptureReply>(Op::capture, message::OpenDevice{device}, {}, &fds);
  if (!reply) return std::unexpected(reply.error());
  if (fds.size() != 1)
    return fail(EPROTO, "cannot capture: the daemon sent no memory; are uroce and uroced of the same release?");
  rings.fd = std::move(fds.front());
  rings.epoch_ns = reply->epoch_ns;
  const std::size_t bytes = reply->rings * message::kCaptureStride;
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, rings.fd.get(), 0);
  if (memory == MAP_FAILED) return fail(ENOMEM, fmt::format("cannot map {} bytes for the capture", bytes));
  for (uint32_t i = 0; i < reply->rings; ++i) {
    rings.readers.emplace_back(static_cast<std::byte*>(memory) + i * message::kCaptureStride);
  }
  return rings;
}

}  // namespace live

struct FrameSource::Parts {
  live::Rings rings;
  live::QpFilter filter;
  Wanted wanted;
  std::string device;
  bool stopped = false;  // the daemon, at the last look

  /// Takes the frames that are there, for a moment at most. False: there was none.
  bool take_frames(const TakeFrame& take, FrameTotals& totals, bool& going);
  /// Says that the daemon is stopped. Errors: EIO (it has ended).
  Result<void> look_at_daemon();
  bool enough(const FrameTotals& totals) const { return wanted.count != 0 && totals.taken >= wanted.count; }
};

FrameSource::FrameSource(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
FrameSource::FrameSource(FrameSource&&) noexcept = default;
FrameSource::~FrameSource() = default;

Result<FrameSource> FrameSource::open(const Wanted& wanted) {
  catch_end_signals();
  std::signal(SIGPIPE, SIG_IGN);
  std::string device = wanted.source.device;
  auto rings = live::begin(wanted.source, device);
  if (!rings) return std::unexpected(rings.error());
  live::QpFilter filter({.socket = wanted.source.socket, .device = device}, wanted.qp);
  if (auto looked = filter.look(live::Clock::now()); !looked) return std::unexpected(looked.error());
  return FrameSource(std::make_unique<Parts>(Parts{std::move(*rings), std::move(filter), wanted, std::move(device)}));
}

const std::string& FrameSource::device() const { return parts_->device; }

Result<void> FrameSource::queue_pair() const {
  if (parts_->filter.found()) return {};
  const std::string& socket = parts_->wanted.source.socket;
  return fail(ENOENT, fmt::format("{0} has no queue pair {1:#x}, and none that is connected to one of that number; "
                                  "`uroce show qp {0}{2}` lists those that it has",
                                  device(), *parts_->wanted.qp, socket.empty() ? "" : " --socket " + socket));
}

bool FrameSource::Parts::take_frames(const TakeFrame& take, FrameTotals& totals, bool& going) {
  const auto began = live::Clock::now();
  bool any = false;
  for (live::RingReader& ring : rings.readers) {
    live::CaptureRecord record{};
    for (auto frame = ring.front(record); !frame.empty() && going && !enough(totals); frame = ring.front(record)) {
      any = true;
      ++totals.seen;
      if (filter.wants(frame, record.outbound != 0)) {
        going = take({rings.epoch_ns + record.time_ns, record.outbound != 0, record.fault_rule, frame});
        ++totals.taken;
      }
      ring.pop(record);
      if (totals.seen % 4096 == 0 && (end_asked() || live::Clock::now() - began > live::kLook)) break;
    }
  }
  return any;
}

// Its rings stay mapped, and nothing comes any more.
Result<void> FrameSource::Parts::look_at_daemon() {
  if (rings.link->lost()) return std::unexpected(daemon_ended("the capture of " + device));
  const auto found = stopped_process(rings.link->daemon_process());
  if (found && !stopped) {
    fmt::print(stderr, "uroce: the uroce daemon (process {}) is stopped, and no frame comes until it goes on\n",
               found->id);
  }
  stopped = found.has_value();
  return {};
}

FrameTotals FrameSource::run(const TakeFrame& take, const std::function<bool()>& pause) {
  const Wanted& wanted = parts_->wanted;
  FrameTotals totals;
  bool going = true;
  live::Clock::time_point next_look{};
  auto found_at = live::Clock::now();
  const auto until = found_at + std::chrono::duration<double>(wanted.seconds);
  while (!end_asked() && going && !parts_->enough(totals)) {
    const auto now = live::Clock::now();
    if (wanted.seconds > 0 && now >= until) break;
    if (auto looked = parts_->filter.look(now); !looked) {
      totals.end = looked;
      break;
    }
    if (parts_->filter.found()) found_at = now;
    const bool any = parts_->take_frames(take, totals, going);
    // Later than that look, because its last frames may still have waited in the rings.
    totals.qp_gone = wanted.until_qp_gone && now - found_at > 2 * live::kLook;
    if (totals.qp_gone) break;
    if (any) continue;
    going = pause();
    if (now >= next_look) {
      next_look = now + live::kLook;
      totals.end = parts_->look_at_daemon();
      if (!totals.end) break;
    }
    usleep(static_cast<useconds_t>(std::chrono::microseconds(live::kNap).count()));
  }
  for (const live::RingReader& ring : parts_->rings.readers) totals.dropped += ring.dropped();
  return totals;
}

}  // namespace uroce::cli
