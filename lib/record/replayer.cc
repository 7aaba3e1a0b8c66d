#include "record/replayer.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include <fmt/format.h>

#include "record/checks.h"
#include "record/frames.h"

namespace uroce::record {
namespace {

using transport::Engine;
using transport::TxFrame;

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
    case Kind::frames: return play_frames(record);
    case Kind::local_frames: return play_local_frames(record);
    case Kind::raw_frames: return play_raw_frames(record);
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
    record.kind == Kind::local_frames ? play_local_frames(record) : play_raw_frames(record);
  }
}

struct Replayer::Burst {
  std::vector<std::vector<std::byte>> bytes;
  std::vector<transport::RxFrame> frames;
};

Replayer::Burst Replayer::read_frames(const Record& record, Parts& parts, bool icrcs) {
  Burst burst;
  const auto count = parts.get<uint32_t>();
  if (count > kMostFrames) refuse(record, fmt::format("it has {} frames", count));
  const auto bad = bad_icrcs_.find(record.number);
  while (burst.frames.size() < count) {
    const auto head = parts.get<FrameRecord>();
    const auto left = static_cast<uint32_t>(count - burst.frames.size());
    for (RunReader run(record, parts, std::min(head.kept, head.length), left); run.has_more();) {
      const auto kept = run.next(parts);
      const bool wrong = bad != bad_icrcs_.end() && bad->second.contains(static_cast<uint32_t>(burst.frames.size()));
      std::vector<std::byte>& frame = burst.bytes.emplace_back(head.length);
      std::ranges::copy(kept, frame.begin());
      burst.frames.push_back({.bytes = frame, .lacks_icrc = head.lacks_icrc != 0});
      if (icrcs && kept.size() != frame.size()) set_icrc(frame, wrong);
    }
  }
  for (const transport::RxFrame& frame : burst.frames) show(true, frame.bytes);
  report_.frames_in += count;
  return burst;
}

void Replayer::play_frames(const Record& record) {
  Parts parts(record);
  const auto now = read<Nanos>(record, parts);
  note_call(now);
  const Burst burst = read_frames(record, parts, true);
  engine_->untape();
  engine_->on_frames(burst.frames, now);
  engine_->retape();
  play_to_end();
}

void Replayer::play_raw_frames(const Record& record) {
  Parts parts(record);
  const auto now = read<Nanos>(record, parts);
  if (record.small > static_cast<uint16_t>(transport::FrameTakers::sniffers)) refuse(record, "its takers are unknown");
  note_call(now);
  const Burst burst = read_frames(record, parts, false);
  engine_->untape();
  engine_->on_raw_frames(burst.frames, now, static_cast<transport::FrameTakers>(record.small));
  engine_->retape();
  play_to_end();
}

void Replayer::play_local_frames(const Record& record) {
  Parts parts(record);
  const auto now = read<Nanos>(record, parts);
  note_call(now);
  const auto count = parts.get<uint32_t>();
  if (count > kMostFrames) refuse(record, fmt::format("it has {} frames", count));
  std::vector<TxFrame> frames(count);
  std::vector<transport::PayloadSpan> spans(frames.size());
  for (std::size_t i = 0; i < frames.size();) {
    const auto head = read<LocalFrameRecord>(record, parts);
    if (head.raw != 0) refuse(record, "a frame in it is a raw one");
    RunReader run(record, parts, head.header_length, static_cast<uint32_t>(frames.size() - i));
    const auto kept = parts.bytes(head.kept);
    const bool whole = kept.size() == head.payload_length;
    for (; run.has_more(); ++i) {
      TxFrame& frame = frames[i];
      std::ranges::copy(run.next(parts), frame.header.begin());
      spans[i] = {whole ? kept.data() : scratch_.data(), head.payload_length};
      frame.payload = &spans[i];
      frame.payload_length = head.payload_length;
      frame.header_length = head.header_length;
      frame.payload_spans = head.payload_length != 0 ? 1 : 0;
      frame.pad = head.pad;
      frame.l3_offset = head.l3_offset;
      frame.ip_version = head.ip_version;
      frame.loopback = head.loopback != 0;
      show_sent(frame, true);
    }
  }
  report_.frames_in += frames.size();
  engine_->untape();
  engine_->on_local_frames(frames, now);
  engine_->retape();
  play_to_end();
}

void Replayer::play_poll(const Record& record) {
  const auto now = read<Nanos>(record);
  note_call(now);
  engine_->untape();
  engine_->poll(sink_, now);
  engine_->retape();
  play_to_end();
}

std::size_t Replayer::room() { return static_cast<std::size_t>(Parts(take(Kind::room)).get<uint64_t>()); }

// `at`: of the burst.
void Replayer::compare_sent(const Record& record, const TxFrame& frame, std::size_t at, const LocalFrameRecord& was,
                            std::span<const std::byte> header, std::span<const std::byte> payload) const {
  const LocalFrameRecord is = record_of(frame);
  const bool same = was == is && (is.kept == 0 || std::memcmp(payload.data(), frame.payload->data, is.kept) == 0);
  if (same && std::ranges::equal(header, std::span(frame.header).first(frame.header_length))) return;
  diverge(record, fmt::format("frame {} of the burst differs: {} bytes of headers and {} of payload; recorded were {} "
                              "and {}",
                              at + 1, is.header_length, is.payload_length, was.header_length, was.payload_length));
}

void Replayer::send(std::span<const TxFrame> frames) {
  const Record record = take(Kind::sent);
  Parts parts(record);
  parts.get<Nanos>();
  const auto count = parts.get<uint32_t>();
  if (count != frames.size()) {
    diverge(record, fmt::format("the engine sends a burst of {} frames; the recording has {}", frames.size(), count));
  }
  for (std::size_t i = 0; i < frames.size();) {
    const auto was = parts.get<LocalFrameRecord>();
    RunReader run(record, parts, was.header_length, static_cast<uint32_t>(frames.size() - i));
    const auto payload = parts.bytes(was.kept);
    for (; run.has_more(); ++i) {
      compare_sent(record, frames[i], i, was, run.next(parts), payload);
      ++report_.frames_out;
      show_sent(frames[i], false);
    }
  }
  play_handed_over();
  engine_->untape();
}

void Replayer::show(bool in, std::span<const std::byte> frame) {
  ++passing_;
  if (watch_ == nullptr || stops_) return;
  stops_ = !watch_->on_frame({.number = passing_, .in = in, .now = now_, .frame = frame}, *engine_);
}

void Replayer::show_sent(const TxFrame& frame, bool in) {
  if (watch_ == nullptr) {
    ++passing_;
    return;
  }
  const LocalFrameRecord record = record_of(frame);
  const auto payload = record.kept == 0 ? std::span<const std::byte>() : std::span(frame.payload->data, record.kept);
  show(in, whole_frame(record, std::span(frame.header).first(frame.header_length), payload));
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

memory::Translation Replayer::translate(memory::Key key, memory::PdId pd, uint64_t address, uint64_t length,
                                        AccessFlags needed, uint32_t) {
  const memory::RegionSpec* const region = region_of(key);
  memory::Translation found =
      region != nullptr ? memory::check_access(*region, pd, address, length, needed) : look_up(length, needed);
  // Wherever it is in its region, it is at the beginning of the scratch memory, aligned alike.
  if (region != nullptr && found.result == memory::AccessResult::ok) {
    if (length >= scratch_.size()) diverge(in_.peek(), fmt::format("the engine looks {} bytes up", length));
    found.host = scratch_.data() + reinterpret_cast<uintptr_t>(found.host) % sizeof(uint64_t);
  }
  if (watch_ != nullptr) {
    watch_->on_lookup({.key = key, .address = address, .length = length, .needed = needed, .result = found.result});
  }
  return found;
}

// nullptr: none was recorded.
const memory::RegionSpec* Replayer::region_of(memory::Key key) {
  if (const auto known = regions_.find(key); known != regions_.end()) return &known->second;
  if (in_.peek().kind != Kind::region || in_.peek().small == kRegionsGone) return nullptr;
  const auto was = read<RegionRecord>(in_.peek());
  if (was.key != key) return nullptr;
  take(Kind::region);
  const memory::RegionSpec region{.pd = was.pd,
                                  .address = was.address,
                                  .length = was.length,
                                  .host = scratch_.data() + was.alignment,
                                  .access = AccessFlags::from_bits(was.access)};
  return &regions_.emplace(key, region).first->second;
}

memory::Translation Replayer::look_up(uint64_t length, AccessFlags needed) {
  ++checks_;
  if (length >= scratch_.size()) diverge(in_.peek(), fmt::format("the engine looks {} bytes up", length));
  if (in_.peek().kind != Kind::check) return {memory::AccessResult::ok, scratch_.data()};
  const auto was = read<CheckRecord>(in_.peek());
  if (was.after != checks_) return {memory::AccessResult::ok, scratch_.data()};
  const Record record = take(Kind::check);
  checks_ = 0;
  if (was.result != memory::AccessResult::ok) return {was.result, nullptr};
  // As RegionTable::translate() says: of a null region reads find zeros, and writes no place.
  if (was.null && needed != AccessFlags(Access::local_write)) refuse(record, "memory is missing that is used");
  return {was.result, was.null ? nullptr : scratch_.data() + (was.misaligned ? 1 : 0)};
}

memory::AccessResult Replayer::key_result() {
  const Record record = take(Kind::key);
  const auto result = static_cast<memory::AccessResult>(record.small);
  if (record.small > static_cast<uint16_t>(memory::AccessResult::out_of_bounds))
    refuse(record, "its result is unknown");
  return result;
}

memory::AccessResult Replayer::invalidate(memory::Key key, memory::PdId, uint32_t) {
  const memory::AccessResult result = key_result();
  if (result == memory::AccessResult::ok) regions_.erase(key);
  if (watch_ != nullptr) watch_->on_lookup({.key = key, .result = result, .invalidates = true});
  return result;
}

const transport::AddressHandle* Replayer::find(transport::AddressHandleId id, memory::PdId) {
  ++handle_checks_;
  if (in_.peek().kind == Kind::handle) {
    if (const auto told = read<HandleRecord>(in_.peek()); told.after == handle_checks_) {
      take(Kind::handle);
      found_handles_[id] = told;
      handle_checks_ = 0;
    }
  }
  const auto found = found_handles_.find(id);
  if (found == found_handles_.end()) diverge(in_.peek(), fmt::format("the engine looks address handle {} up", id));
  const HandleRecord& record = found->second;
  if (!record.found) return nullptr;
  transport::AddressHandle& handle = known_handles_[id];
  handle.pd = record.pd;
  handle.route = record.route;
  handle.dst_mac.store(record.dst_mac);
  handle.dgid = record.dgid;
  handle.flow_label = record.flow_label;
  handle.loopback = record.loopback;
  handle.multicast = record.multicast;
  return &handle;
}

}  // namespace uroce::record
