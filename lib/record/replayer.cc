#include "record/replayer.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include <fmt/format.h>

#include "record/checks.h"

namespace uroce::record {
namespace {

using transport::Engine;

// More than any look-up opens. Pages that nothing touches take no memory.
constexpr std::size_t kScratchBytes = std::size_t{1} << 32;

}  // namespace

Replayer::Replayer(std::span<const std::byte> records, Watch* watch, std::size_t most_ring_bytes)
    : records_(records),
      in_(records),
      watch_(watch),
      most_ring_bytes_(most_ring_bytes),
      keys_(*this),
      handles_(*this) {}

Replayer::~Replayer() {
  qps_.clear();
  engine_.reset();
  if (!scratch_.empty()) munmap(scratch_.data(), scratch_.size());
}

// They are told behind their burst.
void Replayer::find_bad_icrcs(std::span<const std::byte> records) {
  std::vector<uint64_t> calls;
  for (Reader all(records); !all.at_end();) {
    const Record record = all.take();
    switch (record.kind) {
      case Kind::frames:
      case Kind::local_frames:
      case Kind::raw_frames:
      case Kind::poll:
      case Kind::sent: calls.push_back(record.number); break;
      case Kind::end:
        if (!calls.empty()) calls.pop_back();
        break;
      case Kind::bad_icrc:
        if (!calls.empty()) bad_icrcs_[calls.back()].insert(record.small);
        break;
      default: break;
    }
  }
}

Report Replayer::run() {
  try {
    void* const scratch =
        mmap(nullptr, kScratchBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (scratch == MAP_FAILED) throw Stop{Stop::Why::malformed, "no memory is left for the replay"};
    scratch_ = {static_cast<std::byte*>(scratch), kScratchBytes};
    find_bad_icrcs(records_);
    begin_at(take(Kind::engine));
    while (!in_.at_end() && !stops_) play(next());
    if (!stops_) in_.check_end();
    if (stops_) {
      report_.stopped = true;
      watch_->on_stop(*engine_);
    }
  } catch (const Stop& stop) {
    if (stop.why == Stop::Why::over) {
      report_.cut = true;
    } else {
      report_.divergence = stop.text;
      report_.malformed = stop.why == Stop::Why::malformed;
    }
  } catch (const std::bad_alloc&) {
    report_.divergence = fmt::format("at {} ns: no memory is left for the replay", now_.count());
  }
  return report_;
}

void Replayer::diverge(const Record& record, const std::string& what) const {
  const std::string text =
      record.kind == Kind::none
          ? fmt::format("at {} ns: {}; the recording has nothing there", now_.count(), what)
          : fmt::format("record {} at {} ns ({}): {}", record.number, now_.count(), name_of(record.kind), what);
  throw Stop{Stop::Why::diverged, text};
}

Record Replayer::take(Kind kind) {
  in_.check_end();
  if (in_.at_end()) throw Stop{Stop::Why::over, "the recording ends within a call"};
  if (in_.peek().kind != kind) diverge(in_.peek(), fmt::format("the engine comes to another point: {}", name_of(kind)));
  return next();
}

Record Replayer::next() {
  const Record record = in_.take();
  ++report_.records;
  if (watch_ != nullptr && engine_ != nullptr) watch_->on_record(record);
  return record;
}

// Returns the state of its clients.
std::span<const std::byte> Replayer::make_engine(const Record& record) {
  Parts parts(record);
  const auto from = read<EngineRecord>(record, parts);
  transport::EngineConfig config;
  config.index = from.index;
  config.index_bits = from.index_bits;
  config.max_qps = from.max_qps;
  config.burst = from.burst;
  config.window_packets = from.window_packets;
  config.long_windows = from.long_windows;
  config.settings = from.settings;
  config.peer_delay = from.peer_delay;
  std::memcpy(static_cast<void*>(&config.seed), from.seed.data(), from.seed.size());
  config.pkey = from.pkey;
  config.vlan = from.vlan;
  config.plain_path = from.plain_path;
  config.check_icrc = from.check_icrc;
  config.read_window_packets = from.read_window_packets;
  config.ethernet_mtu = from.ethernet_mtu;
  config.port_mtu = from.port_mtu;
  config.mac = from.mac;
  for (uint32_t i = 0; i < from.gids; ++i) config.gids.push_back(parts.get<Gid>());
  std::vector<Prefix> peers;
  for (uint32_t i = 0; i < from.peers; ++i) peers.push_back(read<Prefix>(record, parts));
  config.peers = PeerList(std::move(peers));
  config.tape = this;
  transport::EngineEvents& events = *this;
  engine_ = std::make_unique<Engine>(config, keys_, events, (record.small & kWithHandles) != 0 ? &handles_ : nullptr);
  return parts.rest();
}

// --- Calls ------------------------------------------------------------------------------------------------------

void Replayer::note_call(Nanos now) {
  ++report_.calls;
  now_ = now;
  if (report_.first < Nanos(0)) report_.first = now;
  report_.last = now;
}

void Replayer::play(const Record& record) {
  if (play_input(record) || play_control(record)) return;
  switch (record.kind) {
    case Kind::frames:
    case Kind::raw_frames: return play_frames(record);
    case Kind::local_frames: return play_local_frames(record);
    case Kind::poll: return play_poll(record);
    case Kind::idle: {
      now_ = read<Nanos>(record);
      engine_->untape();
      engine_->poll(sink_, now_);
      engine_->retape();
      return;
    }
    case Kind::bad_icrc: return;
    case Kind::engine: return check_keyframe(record);
    default: diverge(record, "the engine does not come to this point");
  }
}

// The engine has done its part of the call. Control's tasks ran behind it.
void Replayer::play_to_end() {
  for (Record record = next(); record.kind != Kind::end; record = next()) {
    if (record.kind == Kind::bad_icrc || play_input(record) || play_control(record)) continue;
    diverge(record, "the engine does not come to this point");
  }
}

// The sink hands frames for this thread over: the engine gets them within its call.
void Replayer::play_handed_over() {
  for (Record record = next(); record.kind != Kind::end; record = next()) {
    const bool frames = record.kind == Kind::local_frames || record.kind == Kind::raw_frames;
    if (play_input(record)) continue;
    if (!frames) diverge(record, "the engine does not come to this point");
    record.kind == Kind::local_frames ? play_local_frames(record) : play_frames(record);
  }
}

void Replayer::play_poll(const Record& record) {
  const auto now = read<Nanos>(record);
  note_call(now);
  engine_->untape();
  engine_->poll(sink_, now);
  engine_->retape();
  play_to_end();
}

// --- Met by a call ----------------------------------------------------------------------------------------------

void Replayer::taken(std::span<std::byte> bytes) {
  const Record record = take(Kind::taken);
  if (record.bytes.size() != bytes.size()) diverge(record, fmt::format("the engine takes {} bytes", bytes.size()));
  std::ranges::copy(record.bytes, bytes.begin());
}

uint8_t Replayer::complete(transport::CqWriter& cq, const queues::Cqe& cqe, bool, transport::EngineEvents&) {
  // A queue that is full from now on says so first.
  if (in_.peek().kind == Kind::event) {
    const auto event = Parts(in_.peek()).get<EventRecord>();
    const bool full = event.type == static_cast<uint32_t>(AsyncEventType::cq_error) && event.object == cq.id();
    if (full) on_async_event(AsyncEventType::cq_error, cq.id());
  }
  const Record record = take(Kind::completion);
  const auto was = Parts(record).get<CompletionRecord>();
  if (was.cq != cq.id() || std::memcmp(&was.cqe, &cqe, sizeof cqe) != 0) {
    diverge(record,
            fmt::format("completion wr_id={:#x} qp={:#x} status={} len={} in queue {}; recorded was wr_id={:#x} "
                        "qp={:#x} status={} len={} in queue {}",
                        cqe.wr_id, cqe.qpn, cqe.status, cqe.byte_len, cq.id(), was.cqe.wr_id, was.cqe.qpn,
                        was.cqe.status, was.cqe.byte_len, was.cq));
  }
  ++report_.completions;
  if (record.small > static_cast<uint16_t>(transport::CqWriter::Written::overrun))
    refuse(record, "its fate is unknown");
  return static_cast<uint8_t>(record.small);
}

void Replayer::on_async_event(AsyncEventType type, uint32_t object) {
  const Record record = take(Kind::event);
  const auto was = Parts(record).get<EventRecord>();
  if (was.type != static_cast<uint32_t>(type) || was.object != object) {
    diverge(record, fmt::format("event {} of {:#x}; recorded was {} of {:#x}", static_cast<uint32_t>(type), object,
                                was.type, was.object));
  }
  ++report_.events;
}

}  // namespace uroce::record
