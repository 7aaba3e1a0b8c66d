// Decides which request packets are lost, by the arrivals that the peer reports.
//
// A packet is lost when later packets have overtaken it by more than reordering explains. A retransmitted packet is
// lost again after a round trip, when a packet that was sent after it has arrived (as in RACK, RFC 8985, and Falcon).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/psn.h"
#include "base/time.h"
#include "transport/core/psn_set.h"
#include "transport/loss/rtt.h"
#include "transport/loss/send_times.h"
#include "wire/recovery.h"

namespace uroce::transport {

/// Why packets are sent again.
enum class Cause : uint8_t {
  hole,     ///< a SACK or a later response showed that the packet is missing
  probe,    ///< the peer was silent for about two round trips
  timeout,  ///< the peer stayed silent after that
  nak,      ///< the peer asked for it (Go-Back-N, RNR)
};
inline constexpr std::size_t kCauses = 4;

/// Retransmitted packets by cause. The cause stays in force until another one is set.
struct RetransmissionCounts {
  Cause cause{};
  std::array<uint64_t, kCauses> packets{};

  void add() { ++packets[static_cast<std::size_t>(cause)]; }
  uint64_t of(Cause one) const { return packets[static_cast<std::size_t>(one)]; }

  template <class Archive>
  void persist(Archive& archive) {
    auto& [now, counted] = *this;
    archive("cause", now, Cause::hole, Cause::nak);
    archive("packets", counted);
  }
};

/// The PSNs of one request.
struct RequestSpan {
  Psn first{};
  Psn end{};               ///< one past the last PSN
  bool is_read = false;    ///< one request packet stands for all its PSNs
  bool responded = false;  ///< a READ or atomic: the peer sends a response for each PSN
};

/// A packet that was sent again, and what was on its way then.
struct SentAgain {
  Psn psn{};
  Psn sent{};  ///< one past the newest PSN
  uint8_t tag = 0;
  bool after_silence = false;  ///< nothing but a wait without progress was the reason

  template <class Archive>
  void persist(Archive& archive) {
    auto& [which, newest, count, silence] = *this;
    archive("psn", which);
    archive("sent", newest);
    archive("tag", count);
    archive("after_silence", silence);
  }
};

class LossDetector {
 public:
  /// From its beginning on: what packets touch while nothing is lost.
  static constexpr std::size_t kHotBytes = 3 * 64;

  /// For at most `window` packets in flight: SendTimes::kFew of them without memory of a pool.
  explicit LossDetector(uint32_t window) : times_(window) {}
  /// Forgets everything but the memory.
  void reset();
  /// The first request will have `psn`.
  void begin_at(Psn psn) { highest_ = psn; }

  // --- Memory for many packets in flight ------------------------------------------------------------------------

  /// Is a block wanted before `psn` is sent? Early, so that the window need not shrink while packets are out.
  bool wants_block(Psn psn, Psn una) const {
    return !is_whole() && distance(psn, una) >= static_cast<int32_t>(SendTimes::kFew / 2);
  }
  bool is_whole() const { return times_.is_whole(); }
  void lengthen(std::byte* block, Psn sent) { times_.lengthen(block, sent); }
  /// Returns the block, if there is one: few packets are in flight, or none of them counts any more.
  std::byte* shorten(Psn sent) { return times_.shorten(sent); }
  bool has_block() const { return times_.size() > SendTimes::kFew; }

  // --- Sending ------------------------------------------------------------------------------------------------

  /// A request packet leaves. `again`: it was sent before. Returns how often.
  uint16_t on_sent(Psn psn, bool again, Nanos now) {
    Departure& departure = times_[psn];
    departure.at = Stamp(now);
    if (!again) {
      departure.times = 1;
      return 0;
    }
    counts_.add();
    // A part of a READ's response may be asked for from a PSN that no request had yet.
    departure.times = std::max(departure.times, uint16_t{1});
    if (departure.times != UINT16_MAX) ++departure.times;
    return static_cast<uint16_t>(departure.times - 1);
  }

  /// The packet that was sent again left with `tag`, when `sent` was one past the newest PSN sent.
  void note_retransmission(Psn psn, uint8_t tag, Psn sent) {
    newest_again_ = {psn, sent, tag, counts_.cause == Cause::probe || counts_.cause == Cause::timeout};
  }

  // --- Receiving. `sent`: one past the newest PSN sent; `una`: the oldest unacknowledged -----------------------

  /// `psn` was acknowledged. Returns the round-trip time that this shows; 0 for none.
  Nanos sample_rtt(Psn psn, Psn sent, Nanos now) {
    // Karn's rule: when a packet was sent twice, it is unknown which copy is acknowledged.
    if (!times_.covers(psn, sent) || times_[psn].times != 1) return Nanos(0);
    const Nanos rtt = std::max(Stamp(now).since(times_[psn].at), Nanos(1));
    rtt_.sample(rtt);
    return rtt;
  }
  /// As sample_rtt(), for the ACK of a uroce peer. It says what a SACK without a bitmap says that echoes `psn`. 0:
  /// there is more to be learnt from it than the round-trip time, by on_echo() and on_sack().
  Nanos sample_plain_ack(Psn psn, Psn sent, Nanos now) {
    if (marked_ || !times_.covers(psn, sent) || distance(psn, highest_) < 0) return Nanos(0);
    const Departure& departure = times_[psn];
    if (departure.times != 1) return Nanos(0);
    highest_ = psn + 1;
    newest_delivered_ = departure.at;
    const Nanos rtt = std::max(Stamp(now).since(departure.at), Nanos(1));
    rtt_.sample(rtt);
    return rtt;
  }
  /// The SACK echoes the first copy of a packet that was sent again: nothing was lost, the peer was late.
  bool is_late(const wire::Sack& sack, Psn sent) const {
    return sack.echo_tag == 0 && !sack.duplicate && times_.covers(sack.echo, sent) && times_[sack.echo].times > 1;
  }
  /// Is the SACK the peer's answer to the newest packet that left, after a silence? Then all that it does not report is
  /// lost, because that left before.
  bool shows_rest_lost(const wire::Sack& sack, Psn sent) const {
    const SentAgain& newest = newest_again_;
    return newest.after_silence && newest.sent == sent && newest.psn == sack.echo && newest.tag == sack.echo_tag;
  }
  /// The echo of a SACK. Returns the round-trip time that it shows, 0 for none. No value: the time is impossible, so
  /// the SACK must not be believed.
  std::optional<Nanos> on_echo(const wire::Sack& sack, Psn sent, Nanos now);
  /// Records the packets that a SACK reports as arrived. `acked`: one past the newest PSN that was known to be executed
  /// before this SACK. Returns how many packets are reported for the first time.
  uint32_t on_sack(const wire::Sack& sack, Psn una, Psn acked);
  /// The packet with `psn` arrived late: after all others before `overtaken_by`.
  void on_late(Psn psn, Psn overtaken_by);
  /// The peer reports that a retransmitted packet had arrived before: the retransmission was not needed.
  void on_spurious(bool selective);
  /// Marks overtaken requests as lost. `find(psn)` returns the std::optional<RequestSpan> of a started request.
  /// Returns whether there are new ones.
  template <class FindRequest>
  bool detect_overtaken(Psn una, Psn acked, bool selective, Nanos now, FindRequest&& find) {
    return mark_holes(una, acked, highest_, find, [&](Psn psn) { return is_overtaken(psn, selective, now); });
  }
  /// shows_rest_lost() is true, and on_sack() has recorded the SACK: marks all other requests as lost. `find` and the
  /// result as above.
  template <class FindRequest>
  bool mark_unreported(Psn una, Psn acked, Psn sent, FindRequest&& find) {
    return mark_holes(una, acked, sent, find, [](Psn) { return true; });
  }
  /// Should the loss at `now` be reported to congestion control? True at most once per round trip.
  bool begin_loss_event(Nanos now);
  /// The peer is another one now, and has kept nothing beyond `acked`.
  void on_new_peer(Psn acked) {
    sacked_.clear();
    highest_ = acked;
  }
  /// Nothing counts as received out of order, or as lost, any more.
  void forget_all() {
    sacked_.clear();
    lost_.clear();
  }

  // --- Lost packets -------------------------------------------------------------------------------------------

  void mark_lost(Psn psn, Cause cause) {
    lost_.add(psn);
    marked_ = true;
    counts_.cause = cause;
  }
  bool is_lost(Psn psn) const { return lost_.has(psn); }
  /// How far from `from` the next lost PSN lies; `n` when none of the next `n` is lost.
  uint32_t next_lost(Psn from, uint32_t n) const { return lost_.next(from, n); }
  /// The packet is about to be sent again.
  void take_lost(Psn psn) { lost_.remove(psn); }
  /// The reason for the next retransmissions.
  void set_cause(Cause cause) { counts_.cause = cause; }
  /// [from, from + count) is acknowledged.
  void forget(Psn from, uint32_t count) {
    if (!marked_) return;
    marked_ = !sacked_.empty() || !lost_.empty();
    sacked_.remove_from(from, count);
    lost_.remove_from(from, count);
  }
  /// False: no packet is lost or has arrived out of order, and none did before the newest progress.
  bool marked() const { return marked_; }
  /// Unacknowledged packets that are not in flight: they have arrived out of order, or are lost.
  uint32_t not_in_flight() const { return marked_ ? sacked_.count() + lost_.count() : 0; }

  /// One past the newest request known to have arrived.
  Psn highest() const { return highest_; }
  const RttEstimator& rtt() const { return rtt_; }
  void sample_rtt(Nanos rtt) { rtt_.sample(rtt); }
  const RetransmissionCounts& counts() const { return counts_; }
  /// How many packets may overtake another one before it counts as lost.
  uint32_t reordering(bool selective) const;
  /// The longest that the acknowledgement of a retransmission is expected to take.
  Nanos recency() const;

  template <class Archive>
  void persist(Archive& archive);

 private:
  // Packets that may overtake another one before that counts as lost, at most.
  static constexpr uint32_t kMostReorder = 512;

  explicit LossDetector(SendTimes times) : times_(times) {}
  bool is_overtaken(Psn psn, bool selective, Nanos now) const;
  /// Marks the requests of [acked, end) as lost that have not arrived and of which `counts(psn)` is true.
  template <class FindRequest, class Counts>
  bool mark_holes(Psn una, Psn acked, Psn end, FindRequest&& find, Counts&& counts);
  void note_delivered(Psn psn, Psn overtaken_by);
  void learn_reordering(uint32_t overtaken_by);

  // kHotBytes:
  RttEstimator rtt_;
  Psn highest_{};
  Stamp newest_delivered_{};  // when the latest-sent packet that arrived was sent
  bool marked_ = false;       // false: both sets are empty; true until the first progress that finds them so
  SendTimes times_;
  // The rest:
  uint32_t reorder_ = 0;   // learnt
  uint32_t in_order_ = 0;  // packets since one was overtaken
  Nanos loss_at_{};        // of the newest loss event
  SentAgain newest_again_;
  RetransmissionCounts counts_;
  PsnSet sacked_;  // requests that wait in the peer's reorder buffer
  PsnSet lost_;    // to be sent again
};

/// Whether a queue pair has lost packets to send again. Each of its turns reads this, so it stands apart from the
/// detector, in no other cache line.
class LostPackets {
 public:
  bool any() const { return any_; }
  void mark(LossDetector& loss, Psn psn, Cause cause) {
    loss.mark_lost(psn, cause);
    any_ = true;
  }
  /// The detector has marked some itself.
  void on_detected() { any_ = true; }
  /// None is left that has not been sent again.
  void on_all_sent() { any_ = false; }
  /// Nothing counts as lost, or as received out of order, any more.
  void forget(LossDetector& loss) {
    loss.forget_all();
    any_ = false;
  }

  template <class Archive>
  void persist(Archive& archive) {
    auto& [waiting] = *this;
    archive("any", waiting);
  }

 private:
  bool any_ = false;
};

template <class Archive>
void LossDetector::persist(Archive& archive) {
  auto& [rtt, highest, newest_delivered, marked, times, reorder, in_order, loss_at, newest_again, counts, sacked,
         lost] = *this;
  archive("times", times);
  archive("marked", marked);
  if (marked) {
    archive("sacked", sacked);
    archive("lost", lost);
  }
  archive("highest", highest);
  archive("newest_delivered", newest_delivered);
  archive("reorder", reorder, 0, kMostReorder);
  archive("in_order", in_order);
  archive("rtt", rtt);
  archive.moment("loss_at", loss_at);
  archive("newest_again", newest_again);
  archive("counts", counts);
}

template <class FindRequest, class Counts>
bool LossDetector::mark_holes(Psn una, Psn acked, Psn end, FindRequest&& find, Counts&& counts) {
  bool any = false;
  const Psn limit = una + PsnSet::kSize;
  if (distance(end, limit) > 0) end = limit;
  for (Psn psn = acked; distance(end, psn) > 0; ++psn) {
    psn += sacked_.next(psn, static_cast<uint32_t>(distance(end, psn)), false);
    if (psn == end) break;
    const std::optional<RequestSpan> request = find(psn);
    if (!request) break;
    const bool request_packet = psn == request->first || !request->is_read;
    if (request_packet && !lost_.has(psn) && counts(psn)) {
      mark_lost(psn, Cause::hole);
      any = true;
    }
    if (request->is_read) psn = request->end - 1;
  }
  return any;
}

}  // namespace uroce::transport
