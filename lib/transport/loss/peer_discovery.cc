#include "transport/loss/peer_discovery.h"

#include <algorithm>
#include <utility>

#include "base/random.h"

namespace uroce::transport {
namespace {

constexpr Nanos kFirstWait{1'000'000};

}  // namespace

void PeerDiscovery::begin(Retransmission setting, uint32_t epoch) {
  *this = PeerDiscovery{};
  epoch_ = epoch;
  for_ever_ = setting == Retransmission::selective;
  hellos_left_ = kHellos;
  wait_ = kFirstWait;
}

void PeerDiscovery::begin_again() {
  peer_epoch_ = candidate_epoch_ = 0;
  hellos_left_ = kHellos;
  wait_ = kFirstWait;
}

void PeerDiscovery::renew() {
  // The old epoch is as secret as this one has to be.
  Random next(uint64_t{peer_epoch_} << 32 | epoch_);
  do epoch_ = static_cast<uint32_t>(next.next());
  while (epoch_ == 0);
}

wire::Hello PeerDiscovery::hello(uint16_t capacity, uint16_t port) const {
  const bool settled = proven() && candidate_epoch_ == 0;
  return {.epoch = epoch_,
          .peer_epoch = settled ? peer_epoch_ : candidate_epoch_,
          .parking = capacity,
          .answer = !settled,
          .port = port};
}

void PeerDiscovery::on_sent(Nanos now, bool requests_out) {
  sent_at_ = now;
  const bool settled = proven() && candidate_epoch_ == 0;
  if (settled || (hellos_left_ == 0 && !for_ever_)) return;
  if (hellos_left_ > 0) --hellos_left_;
  // An idle queue pair sends no HELLO: the peer may not be at RTR yet and would drop it.
  if (for_ever_ || requests_out) await(now);
}

bool PeerDiscovery::plan_hello(Nanos now) {
  next_hello_ = now + wait_;
  wait_ = std::min(wait_ * 2, kLongestWait);
  return true;
}

bool PeerDiscovery::on_timer() {
  next_hello_ = kNever;
  return epoch_ != 0 && !proven();
}

std::optional<Proof> PeerDiscovery::adopt(uint32_t epoch, uint16_t capacity, Nanos now) {
  candidate_epoch_ = 0;
  if (peer_epoch_ == epoch) return std::nullopt;
  Proof proof{.replaces_another = proven(), .round_trip = {}};
  // One HELLO was sent, so the response is to this one and the time is a round trip.
  if (hellos_left_ + 1 == kHellos) proof.round_trip = now - sent_at_;
  peer_epoch_ = epoch;
  peer_capacity_ = capacity;
  next_hello_ = kNever;
  return proof;
}

std::optional<Proof> PeerDiscovery::on_epoch_named(Nanos now) {
  if (candidate_epoch_ == 0) return std::nullopt;
  return adopt(candidate_epoch_, candidate_capacity_, now);
}

PeerDiscovery::Heard PeerDiscovery::on_hello(const std::optional<wire::Hello>& hello, Nanos now) {
  // A HELLO that names another epoch than ours was meant for another connection.
  const bool ours = hello && (hello->peer_epoch == 0 || hello->peer_epoch == epoch_);
  if (epoch_ == 0 || !ours) return {};
  Heard heard{.valid = true, .answer = hello->answer, .proof = {}, .port = 0, .wish = 0};
  if (hello->peer_epoch == epoch_) {
    heard.proof = adopt(hello->epoch, hello->parking, now);
    heard.port = hello->port;
    heard.wish = hello->wish;
  } else if (hello->epoch == peer_epoch_) {
    candidate_epoch_ = 0;  // The proven peer is still there: forget the other sender.
  } else {
    candidate_epoch_ = hello->epoch;
    candidate_capacity_ = hello->parking;
  }
  return heard;
}

}  // namespace uroce::transport
