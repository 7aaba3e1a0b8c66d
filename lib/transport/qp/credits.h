// End-to-end credits: how many receives the peer has posted (IBTA vol. 1, 9.7.7.2).
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include "base/psn.h"
#include "wire/headers.h"

namespace uroce::transport {

/// The version of snapshots (qp/snapshot.h) that came with GrantedCredits.
inline constexpr uint32_t kSnapshotWithGrantedCredits = 11;

/// Receives that each credit code of an AETH grants.
inline constexpr std::array<uint16_t, 31> kCredits{0,    1,    2,    3,    4,    6,     8,     12,    16,   24,   32,
                                                   48,   64,   96,   128,  192,  256,   384,   512,   768,  1024, 1536,
                                                   2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768};

/// `code`: 0..30.
constexpr uint32_t credits_of(uint8_t code) { return kCredits[code]; }

/// The largest code that grants at most `receives`. From 2 on, an even code 2m grants 2^m, and the next code half as
/// much again.
constexpr uint8_t credit_code(uint32_t receives) {
  if (receives < 2) return static_cast<uint8_t>(receives);
  const uint32_t granted = std::min<uint32_t>(receives, kCredits.back());
  const auto m = static_cast<uint32_t>(std::bit_width(granted) - 1);
  return static_cast<uint8_t>(2 * m + (granted >> (m - 1) & 1));
}
static_assert([] {
  for (uint32_t code = 0; code < kCredits.size(); ++code) {
    const uint32_t next = code + 1 < kCredits.size() ? kCredits[code + 1] : 1u << 20;
    if (credit_code(kCredits[code]) != code || credit_code(next - 1) != code) return false;
  }
  return credit_code(UINT32_MAX) == 30;
}());

/// The credit code that the responder granted last. Before the first receive completes, and while many are posted, it
/// stands for a period of kMessages messages that take none.
class GrantedCredits {
 public:
  static constexpr uint32_t kMessages = 32;
  /// Need the responder not look at its receive queue? `completed`: receives so far, modulo 65,536.
  bool holds(uint16_t completed, uint32_t msn) const {
    return completed == completed_ && period_of(msn) == period_ && code_ != kNone && (code_ >= kMany || completed == 0);
  }
  void set(uint16_t completed, uint32_t msn, uint8_t code) {
    completed_ = completed;
    period_ = period_of(msn);
    code_ = code;
  }
  uint8_t code() const { return code_; }

  template <class Archive>
  void persist(Archive& archive) {
    auto& [completed, period, code] = *this;
    archive("completed", completed);
    archive("period", period);
    archive("code", code);
  }

 private:
  static constexpr uint8_t kNone = 0xff;
  static constexpr uint8_t kMany = credit_code(8);
  static uint8_t period_of(uint32_t msn) { return static_cast<uint8_t>(msn / kMessages); }
  uint16_t completed_ = 0;
  uint8_t period_ = 0;
  uint8_t code_ = kNone;
};

/// The credits that the peer grants to the requester. They are unlimited until the first ACK that carries a limit, so a
/// peer without credits costs no round trip. An RNR NAK covers the messages sent before that.
class SendCredits {
 public:
  /// The next `count` messages begin. Returns the send sequence number of the last one.
  uint32_t next_message(uint32_t count = 1) { return (ssn_ += count) & Psn::kMask; }
  /// Does the next message go beyond the limit (LSN)?
  bool next_exceeds() const { return exceeds(ssn_ + 1); }
  bool exceeds(uint32_t ssn) const { return limit_ssn_ != kUnlimited && distance(Psn(ssn), Psn(limit_ssn_)) > 0; }
  /// Takes the credits of an ACK. The limit may rise or fall; messages already sent are not affected (9.7.7.2.4). True:
  /// the limit has changed.
  bool update(const wire::Aeth& aeth) {
    if (!aeth.is_ack()) return false;
    if (aeth.code() == wire::Aeth::kNoCreditLimit) {
      limit_ssn_ = kUnlimited;
      return false;
    }
    const uint32_t limit = (aeth.msn + credits_of(aeth.code())) & Psn::kMask;
    if (limit == limit_ssn_) return false;
    limit_ssn_ = limit;
    return true;
  }

  template <class Archive>
  void persist(Archive& archive) {
    auto& [ssn, limit_ssn] = *this;
    archive("ssn", ssn);
    archive("limit_ssn", limit_ssn);
  }

 private:
  static constexpr uint32_t kUnlimited = UINT32_MAX;
  uint32_t ssn_ = 0;                 // of the newest message started
  uint32_t limit_ssn_ = kUnlimited;  // newest message that credits allow (LSN), 24 bits
};

}  // namespace uroce::transport
