#include "uroce/capture.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <uroce/version.h>
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <optional>
#include <utility>

#include "client/daemon_link.h"
#include "message/capture_ring.h"
#include "message/device_messages.h"
#include "net/address.h"
#include "uroce/pcapng.h"
#include "wire/packet.h"

namespace uroce::cli {

namespace {

using client::DaemonLink;
using message::CaptureRecord;
using message::CaptureRing;
using message::Op;
using Clock = std::chrono::steady_clock;

constexpr auto kNap = std::chrono::milliseconds(2);
constexpr auto kLook = std::chrono::milliseconds(100);

volatile std::sig_atomic_t interrupted = 0;
extern "C" void interrupt(int) { interrupted = 1; }

void on_signals() {
  struct sigaction action{};
  action.sa_handler = interrupt;
  for (const int signal : {SIGINT, SIGTERM}) sigaction(signal, &action, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
}

/// Finds the frames of one queue pair. A sent frame does not name its sender, but its sender's peer.
class QpFilter {
 public:
  QpFilter(Source source, std::optional<uint32_t> qpn) : source_(std::move(source)), qpn_(qpn) {}

  /// Called now and then, because the queue pair may connect during the capture.
  void look(Clock::time_point now) {
    if (!qpn_ || now < next_look_) return;
    next_look_ = now + kLook;
    const auto rows = fetch_objects(source_, message::Kind::qp);
    if (!rows) return;
    for (const ObjectRow& row : *rows) {
      std::string qpn, dest, dgid;
      for (const auto& [name, value] : row.values) {
        if (name == "qpn") qpn = value;
        if (name == "dest_qpn") dest = value;
        if (name == "dgid") dgid = value;
      }
      if (std::strtoul(qpn.c_str(), nullptr, 0) != *qpn_) continue;
      peer_qpn_ = static_cast<uint32_t>(std::strtoul(dest.c_str(), nullptr, 0));
      peer_ = dgid;
    }
  }
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

Result<Rings> begin(const Source& source, std::string& device) {
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

}  // namespace

Result<void> run_capture(const Options& options) {
  on_signals();
  std::string device = options.source.device;
  auto rings = begin(options.source, device);
  if (!rings) return std::unexpected(rings.error());
  auto file = Pcapng::create(options.file, device, fmt::format("uroce {}", kVersion));
  if (!file) return std::unexpected(file.error());
  fmt::print(stderr, "capturing on {}; ^C ends it\n", device);

  QpFilter filter({.socket = options.source.socket, .device = device}, options.qp);
  uint64_t seen = 0, written = 0;
  const auto enough = [&] { return options.count != 0 && written >= options.count; };
  const auto until = Clock::now() + std::chrono::duration<double>(options.seconds);
  while (interrupted == 0 && !enough() && file->state()) {
    const auto now = Clock::now();
    if (options.seconds > 0 && now >= until) break;
    filter.look(now);
    bool any = false;
    for (RingReader& ring : rings->readers) {
      CaptureRecord record{};
      for (auto frame = ring.front(record); !frame.empty() && !enough(); frame = ring.front(record)) {
        any = true;
        ++seen;
        if (filter.wants(frame, record.outbound != 0)) {
          file->frame(rings->epoch_ns + record.time_ns, record.outbound != 0, frame);
          ++written;
        }
        ring.pop(record);
        if (seen % 4096 == 0 && (interrupted != 0 || Clock::now() - now > kLook)) break;
      }
    }
    if (!any) {
      file->flush();
      usleep(static_cast<useconds_t>(std::chrono::microseconds(kNap).count()));
    }
  }
  uint64_t dropped = 0;
  for (const RingReader& ring : rings->readers) dropped += ring.dropped();
  if (auto ended = file->end(seen + dropped, dropped); !ended) {
    if (ended.error().code == EPIPE) return {};  // the reader of the pipe has seen enough
    return ended;
  }
  fmt::print(stderr, "{} frames written, {} dropped because they came faster than they could be written\n", written,
             dropped);
  return {};
}

}  // namespace uroce::cli
