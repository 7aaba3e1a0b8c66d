// A replay begins at a keyframe, and checks those that it comes to.
#include <algorithm>

#include <fmt/format.h>

#include "record/checks.h"
#include "record/keyframe.h"
#include "record/replayer.h"

namespace uroce::record {
namespace {

using transport::Engine;

void need(const Result<void>& restored) {
  if (!restored) throw Stop{Stop::Why::malformed, restored.error().text};
}

}  // namespace

void Replayer::begin_at(const Record& keyframe) {
  const auto clients = make_engine(keyframe);
  need(engine_->restore_clients(with_more(clients)));
  now_ = engine_->now();
  for (;;) {
    const Record record = next();
    switch (record.kind) {
      case Kind::key_srq: {
        use_srq(record);
        if (record.small == 0) break;
        Queue& queue = srq_of(record, read<SrqRecord>(record).id);
        if (std::exchange(queue.shadow.attached, true) || queue.srq.xrc_domain == 0)
          refuse(record, "it is no XRC queue");
        ++queue.users;
        engine_->attach_srq(queue.srq);
        break;
      }
      case Kind::key_qp: {
        Parts parts(record);
        const auto what = read<QpRecord>(record, parts);
        parts.bytes(2 * sizeof(RingRecord));
        need(engine_->restore(*make(record, what).qp, with_more(parts.rest())));
        break;
      }
      case Kind::key_end: return need(engine_->restore_queues(with_more(record.bytes)));
      default:
        // No queue pair may come to wait before the queues are there.
        if (record.kind == Kind::doorbell || !play_input(record)) diverge(record, "this is no part of a keyframe");
    }
  }
}

std::vector<std::byte> Replayer::with_more(std::span<const std::byte> state) {
  std::vector<std::byte> whole(state.begin(), state.end());
  while (in_.peek().kind == Kind::key_more) {
    const Record more = take(Kind::key_more);
    whole.insert(whole.end(), more.bytes.begin(), more.bytes.end());
  }
  return whole;
}

void Replayer::check_keyframe(const Record& keyframe) {
  Keyed keyed{.engine = *engine_, .qps = {}, .srqs = {}};
  for (auto& [qpn, qp] : qps_) keyed.qps.emplace_back(qp.qp.get(), &qp.shadow);
  for (auto& [id, queue] : srqs_) keyed.srqs.emplace_back(&queue.srq, &queue.shadow);
  regions_.clear();
  checks_ = handle_checks_ = 0;
  Record record = keyframe;
  bool first = true;
  write_keyframe(std::move(keyed), 0,
                 [&](Kind kind, uint16_t, std::span<const std::byte> fixed, std::span<const std::byte> state) {
                   if (!std::exchange(first, false)) record = take(kind);
                   const bool sized = record.bytes.size() == fixed.size() + state.size();
                   if (sized && std::ranges::equal(record.bytes.last(state.size()), state)) return;
                   const auto was = record.bytes.subspan(std::min(fixed.size(), record.bytes.size()));
                   const auto at = std::ranges::mismatch(was, state).in1 - was.begin();
                   const std::string whose =
                       kind == Kind::key_qp
                           ? fmt::format("queue pair {:#x}", reinterpret_cast<const QpRecord*>(fixed.data())->qpn)
                           : "the engine";
                   diverge(record, fmt::format("the state of {} differs at byte {} of {}; recorded were {}", whose, at,
                                               state.size(), was.size()));
                 });
  ++report_.keyframes;
}

}  // namespace uroce::record
