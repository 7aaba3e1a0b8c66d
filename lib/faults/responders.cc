#include "faults/responders.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <optional>

#include "base/bytes.h"
#include "wire/headers.h"

namespace uroce::faults {

namespace {

/// No requester sends so far ahead, or behind: its numbers are those of another connection.
constexpr int32_t kFar = 1 << 16;
constexpr uint32_t kLeastMtu = 256;
constexpr uint8_t kMostLosses = 3;

/// The PSN that the sender of a response expects next; nullopt: the response does not tell.
std::optional<Psn> expected_by(const wire::Packet& response) {
  const auto& flags = response.op().flags;
  if (!flags.has(wire::Op::aeth)) {
    return flags.has(wire::Op::read) ? std::optional(response.bth.psn + 1) : std::nullopt;
  }
  return response.aeth.kind() == wire::AethKind::ack ? response.bth.psn + 1 : response.bth.psn;
}

}  // namespace

void Responder::note_request(const wire::Packet& packet, uint32_t qpn) {
  const Psn psn = packet.bth.psn;
  const bool is_read = packet.op().flags.has(wire::Op::read);
  const Psn last = psn + (is_read ? packet.reth.length / kLeastMtu : 0);
  if (qpn_ != qpn || distance(psn, furthest_) > kFar || (known_ && distance(psn, expected_) < -kFar)) {
    *this = {};
    qpn_ = qpn;
    furthest_ = last;
    expected_ = psn;
    known_ = true;
  }
  if (distance(last, furthest_) > 0) furthest_ = last;
}

Responder::Turn Responder::turn_of(Psn psn) const {
  const int32_t ahead = distance(psn, expected_);
  if (!known_ || ahead < 0 || (ahead > 0 && waits_)) return Turn::never;
  return ahead == 0 ? Turn::now : Turn::later;
}

void Responder::wait(Psn psn, uint32_t rule, std::span<const std::byte> nak) {
  assert(nak.size() <= nak_.size());
  std::ranges::copy(nak, nak_.begin());
  length_ = nak.size();
  psn_ = psn;
  rule_ = rule;
  losses_ = 1;
  waits_ = true;
}

bool Responder::loses(Psn psn) {
  if (!waits_ || psn != psn_) return false;
  waits_ = losses_++ < kMostLosses;
  return waits_;
}

std::span<const std::byte> Responder::note_expected(Psn psn) {
  if (!known_ || distance(psn, expected_) > 0) expected_ = psn;
  known_ = true;
  if (!waits_ || distance(expected_, psn_) < 0) return {};
  waits_ = false;
  return expected_ == psn_ ? std::span<const std::byte>(nak_).first(length_) : std::span<const std::byte>();
}

std::size_t Responders::Hash::operator()(const Key& key) const {
  // The end of an address differs most.
  return load_be64(reinterpret_cast<const std::byte*>(key.host.bytes.data()) + 8) * 31 + key.asker * 3 +
         static_cast<std::size_t>(key.way);
}

Responder& Responders::of_request(Way way, const wire::Packet& request, uint32_t asker) {
  const Key key{.way = back(way), .asker = asker, .host = request.source()};
  auto found = all_.find(key);
  if (found == all_.end()) {
    if (all_.size() == kMost) {
      // A connection that comes back may have lost packets meanwhile.
      had_room_ = false;
      all_.erase(all_.begin());
    }
    found = all_.try_emplace(key).first;
    if (!had_room_) found->second.qpn_ = request.bth.dest_qpn;
  }
  found->second.note_request(request, request.bth.dest_qpn);
  return found->second;
}

std::span<const std::byte> Responders::note_response(Way way, const wire::Packet& response) {
  const auto found = all_.find(Key{.way = way, .asker = response.bth.dest_qpn, .host = response.destination()});
  const auto expected = expected_by(response);
  if (found == all_.end() || !expected) return {};
  return found->second.note_expected(*expected);
}

}  // namespace uroce::faults
