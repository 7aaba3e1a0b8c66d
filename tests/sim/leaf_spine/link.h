// One direction of a link with the queue in front of it. It can be paused, lose packets, and be cut.
#pragma once

#include <cstdint>

#include "base/random.h"
#include "tests/sim/events.h"
#include "tests/sim/leaf_spine/packet.h"

namespace uroce::sim {

/// Takes packets at the far end of a link.
class PacketReceiver {
 public:
  virtual ~PacketReceiver() = default;
  /// `port`: of this receiver.
  virtual void receive(Packet& packet, uint32_t port) = 0;
};

/// Owns the queue of a link.
class PacketSource {
 public:
  virtual ~PacketSource() = default;
  /// The packet has left the queue of `port`, and is still whole.
  virtual void on_left(const Packet& packet, uint32_t port) = 0;
};

/// The end of a link.
template <class Device>
struct LinkEnd {
  Device& device;
  uint32_t port;
};

struct LinkOptions {
  double gbps = 100;
  Picos delay{1'000'000};  ///< propagation
  double loss = 0;         ///< chance of each packet
  uint64_t seed = 1;
};

struct LinkCounters {
  uint64_t packets = 0;  ///< that have left the queue
  uint64_t bytes = 0;    ///< of those, with the overhead on the wire
  uint64_t lost = 0;
  uint64_t cut = 0;  ///< lost because the link was down
  uint64_t pauses = 0;
  Picos paused{0};
};

class Link : private Handler {
 public:
  Link(EventQueue& events, PacketPool& pool, const LinkOptions& options, LinkEnd<PacketSource> near,
       LinkEnd<PacketReceiver> far);

  /// Into the queue, which the near end bounds.
  void send(Packet& packet);
  /// The far end asks for a pause, or for its end; it acts once the request has crossed the link.
  void ask_to_pause(bool paused);
  /// A link that is down loses what leaves its queue.
  void set_up(bool up) { up_ = up; }
  std::size_t queued_packets() const { return queue_.size(); }

  const LinkOptions& options() const { return options_; }
  const LinkCounters& counters() const { return counters_; }
  /// The time that a packet takes on the wire.
  static Picos time_of(uint32_t bytes, double gbps);

 private:
  enum What : uint64_t { left, arrived, pause, resume };
  void on_event(uint64_t what) override;
  void start();
  void leave();
  void arrive();
  void set_paused(bool paused);

  EventQueue& events_;
  PacketPool& pool_;
  LinkOptions options_;
  LinkEnd<PacketSource> near_;
  LinkEnd<PacketReceiver> far_;
  Random random_;
  LinkCounters counters_;
  bool sending_ = false;
  bool paused_ = false;
  bool up_ = true;
  Picos paused_since_{0};
  PacketList queue_;   // the first one is being sent while sending_
  PacketList flying_;  // in the order in which they arrive
};

}  // namespace uroce::sim
