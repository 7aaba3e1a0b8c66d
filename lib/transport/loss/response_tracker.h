// Records which responses to READs and atomics have arrived, and from where to ask for missing ones.
//
// A peer sends responses in the order of their requests, so a response is missing when a later one has overtaken it.
// Only the missing part is requested again, from any peer.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "base/psn.h"
#include "base/time.h"
#include "transport/core/psn_set.h"
#include "transport/loss/loss_detector.h"

namespace uroce::transport {

class ResponseTracker {
 public:
  void begin_at(Psn psn) { expected_end_ = asked_until_ = psn; }

  // --- Arrivals beyond the oldest missing response ---------------------------------------------------------------

  bool has(Psn psn) const { return marked_ && placed_.has(psn); }
  void add(Psn psn) {
    placed_.add(psn);
    marked_ = true;
  }
  /// Is `psn` the newest response that has arrived, or that must have left the peer?
  bool nothing_beyond(Psn psn) const { return !marked_ && distance(expected_end_, psn) <= 1; }
  /// How many of the `n` responses from `una` on have arrived without a gap. `n` is at most PsnSet::kSize.
  uint32_t arrived_from(Psn una, uint32_t n) const { return marked_ ? placed_.next(una, n, false) : 0; }
  /// How many of the `n` responses from `psn` on are missing before the first that has arrived. `una`: the oldest
  /// missing one; nothing is known of the PsnSet::kSize-th after it and later ones, whose marks are those of others.
  uint32_t missing_from(Psn psn, uint32_t n, Psn una) const {
    const int32_t reach = distance(una + PsnSet::kSize, psn);
    const uint32_t known = reach <= 0 ? 0 : std::min(n, static_cast<uint32_t>(reach));
    const uint32_t missing = placed_.next(psn, known);
    return missing < known ? missing : n;
  }
  /// [from, from + count) is complete.
  void forget(Psn from, uint32_t count) {
    if (!marked_) return;
    placed_.remove_from(from, count);
    marked_ = !placed_.empty();
  }

  // --- Missing responses ----------------------------------------------------------------------------------------

  /// Responses before `end` have left the peer.
  void expect_until(Psn end) {
    if (distance(end, expected_end_) > 0) expected_end_ = end;
  }
  /// Responses before `end` are asked for at `now`, without a sign that they are missing.
  void ask_until(Psn end, Nanos now) {
    expect_until(end);
    asked_until_ = end;
    asked_at_ = now;
  }
  /// One past the newest response that must have left the peer.
  Psn expected_end() const { return expected_end_; }
  /// Marks the beginning of each missing run as lost that at least `overtaken` responses have passed. `next()` returns
  /// the std::optional<RequestSpan> of the started requests, oldest first. Returns whether there are new ones.
  template <class NextRequest>
  bool find_missing(LossDetector& loss, Psn una, bool selective, uint32_t overtaken, Nanos now, NextRequest&& next);

  template <class Archive>
  void persist(Archive& archive) {
    auto& [placed, marked, expected_end, asked_until, asked_at] = *this;
    archive("placed", placed);
    archive("marked", marked);
    archive("expected_end", expected_end);
    archive("asked_until", asked_until);
    archive.moment("asked_at", asked_at);
  }

 private:
  struct Run {
    Psn from;
    Psn to;
  };
  // The first run of missing responses in [from, end).
  Run missing_run(Psn from, Psn end) const {
    const auto span = static_cast<uint32_t>(std::clamp(distance(end, from), 0, static_cast<int32_t>(PsnSet::kSize)));
    const Psn begin = from + placed_.next(from, span, false);
    const auto rest = static_cast<uint32_t>(distance(from + span, begin));
    return {begin, begin + placed_.next(begin, rest)};
  }

  PsnSet placed_;
  bool marked_ = false;  // false: placed_ is empty
  Psn expected_end_{};
  Psn asked_until_{};  // one past the newest response that was asked for again
  Nanos asked_at_{};
};

template <class NextRequest>
bool ResponseTracker::find_missing(LossDetector& loss, Psn una, bool selective, uint32_t overtaken, Nanos now,
                                   NextRequest&& next) {
  const Psn limit = una + PsnSet::kSize;
  const Psn reach = distance(expected_end_, limit) < 0 ? expected_end_ : limit;
  const auto least = static_cast<int32_t>(overtaken);
  const bool again = now - asked_at_ >= loss.recency();
  Psn asked = asked_until_;
  bool any = false;
  Psn psn = una;
  while (distance(reach, psn) >= least) {
    const std::optional<RequestSpan> request = next();
    if (!request) break;
    const Psn end = distance(request->end, reach) < 0 ? request->end : reach;
    while (request->responded && distance(end, psn) > 0) {
      const Run run = missing_run(psn, end);
      psn = run.to;
      if (run.from == run.to || distance(reach, run.from) < least) break;
      const bool known = loss.is_lost(run.from) || (!again && distance(run.from, asked_until_) < 0);
      if (!known) {
        loss.mark_lost(run.from, Cause::hole);
        any = true;
        if (distance(run.to, asked) > 0) asked = run.to;
      }
      // One run at a time: a standard peer that is asked for a later part may forget the earlier ones, as Linux rxe
      // does.
      if (!selective) psn = reach;
    }
    if (distance(request->end, psn) > 0) psn = request->end;
  }
  if (!any) return false;
  asked_until_ = asked;
  asked_at_ = now;
  return true;
}

}  // namespace uroce::transport
