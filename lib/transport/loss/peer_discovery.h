// Peer discovery: finds out whether the peer is a uroce peer, which keeps packets that arrive out of order.
//
// Each side draws a random epoch for the connection and sends it in a HELLO when its queue pair reaches RTR. The
// receiver replies with a HELLO that has both epochs. A HELLO that names our epoch proves that its sender receives our
// frames on this connection; from then on recovery is selective. A HELLO is repeated while requests are out, because it
// may be lost, or arrive before the peer is at RTR. Other receivers drop it. After some repetitions no more are sent.
#pragma once

#include <cstdint>
#include <optional>

#include <uroce/types.h>

#include "base/time.h"
#include "wire/recovery.h"

namespace uroce::transport {

/// A uroce peer has proven that it receives our frames.
struct Proof {
  bool replaces_another = false;    ///< another peer had proven itself before; this one has kept nothing
  std::optional<Nanos> round_trip;  ///< only when no HELLO was repeated
};

class PeerDiscovery {
 public:
  /// HELLOs that are sent without a response, unless the setting is `selective`, which sends them for ever.
  static constexpr uint8_t kHellos = 11;
  /// The longest time between two.
  static constexpr Nanos kLongestWait{1'000'000'000};

  /// From RTR on, with a random `epoch`; a HELLO is due. `setting`: `automatic` or `selective`. Without this call no
  /// HELLO is sent or believed.
  void begin(Retransmission setting, uint32_t epoch);
  /// The peer no longer behaves like a uroce peer: discovery starts again, and a HELLO is due.
  void begin_again();
  /// Draws another epoch, so that the peer drops what it keeps. begin_again() comes next.
  void renew();

  /// Has the peer been proven to be a uroce peer?
  bool proven() const { return peer_epoch_ != 0; }
  uint32_t epoch() const { return epoch_; }
  uint32_t peer_epoch() const { return peer_epoch_; }
  /// Packets that the proven peer keeps beyond the expected one.
  uint32_t peer_capacity() const { return peer_capacity_; }
  /// Are HELLOs still sent, or would they be if requests were out?
  bool asking() const { return epoch_ != 0 && (hellos_left_ > 0 || for_ever_); }

  // --- Sending ------------------------------------------------------------------------------------------------

  /// The HELLO to send now. `capacity`: packets that this side keeps. `port`: wire::Hello::port.
  wire::Hello hello(uint16_t capacity, uint16_t port = 0) const;
  /// The HELLO has left. `requests_out`: requests are outstanding, so another HELLO follows if there is no response.
  void on_sent(Nanos now, bool requests_out);
  /// Requests are outstanding: another HELLO follows if the peer does not prove itself soon. Returns whether
  /// next_hello() was set.
  bool await(Nanos now) { return !proven() && asking() && next_hello_ == kNever && plan_hello(now); }
  /// When the next HELLO is due; kNever for none.
  Nanos next_hello() const { return next_hello_; }
  /// The time of next_hello() has come. True: send a HELLO.
  bool on_timer();
  void stop() { next_hello_ = kNever; }

  // --- Receiving ----------------------------------------------------------------------------------------------

  struct Heard {
    bool valid = false;          ///< false: for another connection, or malformed
    bool answer = false;         ///< the peer wants a HELLO back
    std::optional<Proof> proof;  ///< the peer has proven itself with this HELLO
    uint16_t port = 0;           ///< where the peer wants our frames to come from, and has proven itself; 0: anywhere
    uint16_t wish = 0;           ///< wire::Hello::wish of the proven peer
  };
  Heard on_hello(const std::optional<wire::Hello>& hello, Nanos now);
  /// A SACK named our epoch. This proves the peer whose HELLO has arrived, though its reply to ours may be lost.
  std::optional<Proof> on_epoch_named(Nanos now);

  template <class Archive>
  void persist(Archive& archive);

 private:
  bool plan_hello(Nanos now);
  std::optional<Proof> adopt(uint32_t epoch, uint16_t capacity, Nanos now);

  uint32_t epoch_ = 0;            // of this connection, on this side
  uint32_t peer_epoch_ = 0;       // on the other side; 0: not proven
  uint32_t candidate_epoch_ = 0;  // received in a HELLO, not proven
  uint16_t peer_capacity_ = 0;
  uint16_t candidate_capacity_ = 0;
  uint8_t hellos_left_ = 0;
  bool for_ever_ = false;
  Nanos sent_at_{};
  Nanos wait_{};
  Nanos next_hello_ = kNever;
};

template <class Archive>
void PeerDiscovery::persist(Archive& archive) {
  auto& [epoch, peer_epoch, candidate_epoch, peer_capacity, candidate_capacity, hellos_left, for_ever, sent_at, wait,
         next_hello] = *this;
  archive("epoch", epoch);
  archive("peer_epoch", peer_epoch);
  archive("candidate_epoch", candidate_epoch);
  archive("peer_capacity", peer_capacity);
  archive("candidate_capacity", candidate_capacity);
  archive("hellos_left", hellos_left, 0, kHellos);
  archive("for_ever", for_ever);
  archive.moment("sent_at", sent_at);
  archive("wait", wait, Nanos(0), kLongestWait);
  archive.deadline("next_hello", next_hello);
}

}  // namespace uroce::transport
