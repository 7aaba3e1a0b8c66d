#include "record/script_writer.h"

#include <algorithm>
#include <cerrno>
#include <map>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "record/checks.h"
#include "record/script_names.h"
#include "record/script_packets.h"
#include "record/script_places.h"
#include "record/script_requests.h"
#include "record/script_settings.h"
#include "wire/drop.h"

namespace uroce::record {
namespace {

/// Looks on at a replay, and writes what the queue pair meets and does as lines.
class ScriptWriter final : public Watch {
 public:
  ScriptWriter(ScriptPlaces& places, const EngineRecord& engine, uint32_t qpn, uint64_t last)
      : places_(places), settings_(engine), qpn_(qpn), last_(last) {}

  void on_record(const Record& record) override;
  void on_lookup(const Lookup& lookup) override;
  bool on_frame(const Passing& frame, transport::Engine&) override;
  void on_stop(transport::Engine&) override {}

  bool found() const { return qp_.has_value(); }
  /// Why it has no script.
  const std::optional<std::string>& refusal() const { return refusal_; }
  Script finish(std::string_view name);

 private:
  struct Line {
    Nanos now;
    std::string text;
  };
  void put(std::string text) { lines_.push_back({now_, std::move(text)}); }
  /// The engine's call stands before the first thing that comes of it.
  void put_poll() {
    if (!std::exchange(polls_, false)) return;
    if (room_) put(fmt::format("room {}", *room_));
    put("poll");
    if (std::exchange(room_, std::nullopt)) put("room all");
  }
  void leave_out(const std::string& what) { ++left_out_[what]; }
  void end(const std::string& why) {
    if (!std::exchange(ended_, true)) leave_out("everything from " + why + " on");
  }

  void on_call(const Record& record);
  void attach(const Record& record);
  void modify(const Record& record);
  void posts(const Record& record);
  void complete(const Record& record);
  void tell_event(const Record& record);

  ScriptPlaces& places_;
  ScriptSettings settings_;
  ScriptPackets packets_{places_};
  const uint32_t qpn_;
  const uint64_t last_;
  std::optional<QpRecord> qp_;
  std::map<uint32_t, SrqRecord> srqs_;
  std::optional<wire::Route> route_;
  uint32_t peer_ = 0;
  bool connected_ = false;
  Nanos now_{0};
  Nanos start_{0};
  std::vector<Line> lines_;
  std::size_t call_ = 0;  // the first line of the call
  int depth_ = 0;         // calls within calls
  bool in_poll_ = false, polls_ = false;
  std::optional<uint64_t> room_;
  std::map<std::string, uint64_t> left_out_;
  std::optional<std::string> refusal_;
  std::map<memory::Key, bool> open_;
  uint64_t shown_ = 0;
  bool ended_ = false;
};

void ScriptWriter::on_record(const Record& record) {
  on_call(record);
  if (ended_) return;
  switch (record.kind) {
    case Kind::attach: return attach(record);
    case Kind::srq: {
      const auto srq = read<SrqRecord>(record);
      srqs_[srq.id] = srq;
      return;
    }
    case Kind::bad_icrc:
    case Kind::frames:
    case Kind::poll: return;
    default: break;
  }
  if (!qp_) return;
  switch (record.kind) {
    case Kind::modify: return modify(record);
    case Kind::sends:
    case Kind::recvs:
    case Kind::srq_recvs: return posts(record);
    case Kind::room: {
      const auto room = Parts(record).get<uint64_t>();
      if (polls_ && !room_ && room < settings_.burst()) room_ = room;
      return;
    }
    case Kind::completion: return complete(record);
    case Kind::event: return tell_event(record);
    case Kind::srq_limit: {
      Parts parts(record);
      if (parts.get<uint32_t>() != qp_->srq || !qp_->has_srq) return;
      return put(fmt::format("srq_limit {}", parts.get<uint32_t>()));
    }
    case Kind::detach:
      if (read<ObjectRecord>(record).object == qpn_) ended_ = true;
      return;
    case Kind::adopt:
    case Kind::adopt_unknown:
      if (read<ObjectRecord>(record).object == qpn_) refusal_ = "the recording begins in the middle of its life";
      return;
    case Kind::whole_writes: return leave_out("WRITEs that are placed whole");
    default: return;
  }
}

void ScriptWriter::on_call(const Record& record) {
  switch (record.kind) {
    case Kind::frames:
    case Kind::raw_frames:
    case Kind::local_frames:
    case Kind::sent:
    case Kind::poll:
      now_ = std::max(now_, read<Nanos>(record));
      if (depth_++ != 0) return;
      call_ = lines_.size();
      in_poll_ = polls_ = record.kind == Kind::poll && qp_ && !ended_;
      return;
    case Kind::end:
      if (--depth_ != 0) return;
      if (in_poll_) put_poll();
      in_poll_ = false;
      return;
    default: return;
  }
}

void ScriptWriter::attach(const Record& record) {
  const auto qp = read<QpRecord>(record);
  if (qp.qpn != qpn_) {
    if (qp_ && qp_->has_srq && qp.has_srq && qp.srq == qp_->srq) leave_out("others that share its receives");
    return;
  }
  if (qp_) return end("its second life");
  if (qp.type != QpType::rc && qp.type != QpType::uc) refusal_ = "only RC and UC queue pairs have one";
  qp_ = qp;
  const auto srq = srqs_.find(qp.srq);
  settings_.attach(qp, qp.has_srq && srq != srqs_.end() ? &srq->second : nullptr);
  start_ = now_ = std::max(now_, qp.now);
}

void ScriptWriter::modify(const Record& record) {
  const auto modify = read<ModifyRecord>(record);
  if (modify.qpn != qpn_) return;
  put_poll();
  now_ = std::max(now_, modify.now);
  if (modify.has_route) packets_.connect(*(route_ = modify.route));
  if (modify.mask.has(QpAttrBit::dest_qpn)) peer_ = modify.attr.dest_qpn;
  if (!modify.mask.has(QpAttrBit::state)) return leave_out("changes of attributes alone");
  const QpState state = modify.attr.state;
  if (!connected_) settings_.modify(modify);
  if (state == QpState::init) {
    if (connected_) end("its second connection");
    if (lines_.empty()) start_ = now_;
    return;
  }
  const bool connects = state == QpState::rtr || (state == QpState::rts && !connected_);
  const QpAttrMask rest = modify.mask.without(QpAttrMask(QpAttrBit::state) | QpAttrBit::en_sqd_async_notify);
  if (!connects && !rest.empty()) leave_out("attributes that a later change of state has");
  connected_ |= state == QpState::rts;
  const bool notifies = modify.mask.has(QpAttrBit::en_sqd_async_notify) && modify.attr.en_sqd_async_notify;
  put(fmt::format("modify {}{}", names::name_of(names::kStateNames, state), notifies ? " notify" : ""));
}

void ScriptWriter::posts(const Record& record) {
  const bool srq = record.kind == Kind::srq_recvs;
  Parts parts(record);
  const auto slots = parts.get<SlotsRecord>();
  if (srq ? !qp_->has_srq || slots.object != qp_->srq : slots.object != qpn_) return;
  while (!parts.empty()) {
    const auto slot = parts.bytes(parts.get<uint16_t>());
    const auto text = record.kind == Kind::sends ? send_text(slot, places_) : recv_text(slot, places_);
    if (!text) return end("a request that the language has no words for");
    put(*text);
  }
}

void ScriptWriter::complete(const Record& record) {
  const auto was = Parts(record).get<CompletionRecord>();
  if (was.cqe.qpn != qpn_) return;
  put_poll();
  if (record.small != 0) return leave_out("completions for which their queue had no room");
  const bool one_queue = qp_->send_cq == qp_->recv_cq;
  const bool receive = one_queue ? was.cqe.opcode >= static_cast<uint8_t>(WcOpcode::recv) : was.cq == qp_->recv_cq;
  put(completion_text(was.cqe, receive, places_));
}

void ScriptWriter::tell_event(const Record& record) {
  const auto event = Parts(record).get<EventRecord>();
  const auto type = static_cast<AsyncEventType>(event.type);
  const bool of_srq = type == AsyncEventType::srq_limit_reached || type == AsyncEventType::srq_error;
  if (type == AsyncEventType::cq_error) return leave_out("errors of completion queues");
  if (of_srq ? !qp_->has_srq || event.object != qp_->srq : event.object != qpn_) return;
  put_poll();
  put(fmt::format("event {}", names::name_of(names::kEventNames, type)));
}

// A key that opened memory and opens none any more: its region has gone before the call.
void ScriptWriter::on_lookup(const Lookup& lookup) {
  if (ended_ || !qp_) return;
  if (lookup.result == memory::AccessResult::ok) {
    open_[lookup.key] = true;
    return;
  }
  if (lookup.result != memory::AccessResult::bad_key || !std::exchange(open_[lookup.key], false)) return;
  const std::size_t at = std::min(call_, lines_.size());
  const Nanos now = at < lines_.size() ? lines_[at].now : now_;
  const auto region = places_.name(lookup.key);
  lines_.insert(lines_.begin() + static_cast<std::ptrdiff_t>(at), {now, fmt::format("deregister {}", *region)});
}

bool ScriptWriter::on_frame(const Passing& frame, transport::Engine&) {
  const bool goes_on = frame.number != last_;
  if (ended_ || !qp_) return goes_on;
  const auto packet = wire::parse(frame.frame, wire::Icrc::skip);
  if (!packet) {
    if (frame.in) leave_out("received frames that are no packets, of all queue pairs");
    return goes_on;
  }
  if (frame.in) {
    if (packet->bth.dest_qpn != qpn_) return goes_on;
    const auto checked = wire::parse(frame.frame, wire::Icrc::check);
    put("< " + packets_.received(*packet, !checked && checked.error() == wire::Drop::icrc));
    // Handed over in the middle of the engine's call: it goes on after that.
    polls_ = in_poll_;
  } else {
    const bool ours = packet->bth.dest_qpn == peer_ && route_ && packet->destination() == route_->dgid;
    if (!ours) return goes_on;
    put_poll();
    put("> " + packets_.sent(*packet));
  }
  ++shown_;
  return goes_on;
}

Script ScriptWriter::finish(std::string_view name) {
  Script script{.packets = shown_};
  for (const auto& [what, times] : left_out_) {
    script.left_out.push_back(times == 1 ? what : fmt::format("{} ({} times)", what, times));
  }
  for (const std::string& what : settings_.left_out()) script.left_out.push_back(what);
  if (places_.too_large() != 0) script.left_out.emplace_back("the ends of large regions");
  script.text = fmt::format("== {}\n", name);
  for (const std::string& what : script.left_out) script.text += fmt::format("# Left out: {}.\n", what);
  script.text += settings_.lines(start_) + places_.lines();
  for (const Line& line : lines_) {
    if (line.now > start_) script.text += fmt::format("+{}ns ", (line.now - start_).count());
    start_ = std::max(start_, line.now);
    script.text += line.text + '\n';
  }
  return script;
}

}  // namespace

Result<Script> write_script(std::span<const std::byte> records, uint32_t qpn, std::string_view name, uint64_t last,
                            std::size_t most_ring_bytes) {
  EngineRecord engine{};
  try {
    const Record first = Reader(records).peek();
    if (first.kind != Kind::engine) return fail(EINVAL, "the recording does not begin with an engine");
    engine = read<EngineRecord>(first);
  } catch (const Stop& stop) {
    return fail(EINVAL, stop.text);
  }
  ScriptPlaces places;
  Replayer(records, &places, most_ring_bytes).run();
  ScriptWriter writer(places, engine, qpn, last);
  const Report report = Replayer(records, &writer, most_ring_bytes).run();
  if (report.divergence) return fail(report.malformed ? EINVAL : EIO, *report.divergence);
  if (!writer.found()) return fail(ENOENT, fmt::format("the recording has no queue pair {:#x}", qpn));
  if (writer.refusal()) {
    return fail(EOPNOTSUPP, fmt::format("queue pair {:#x} has no packet script: {}", qpn, *writer.refusal()));
  }
  return writer.finish(name);
}

}  // namespace uroce::record
