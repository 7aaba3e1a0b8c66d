#include "tests/sim/leaf_spine/link.h"

#include <cmath>

#include "tests/sim/frames.h"

namespace uroce::sim {

Link::Link(EventQueue& events, PacketPool& pool, const LinkOptions& options, LinkEnd<PacketSource> near,
           LinkEnd<PacketReceiver> far)
    : events_(events), pool_(pool), options_(options), near_(near), far_(far), random_(options.seed) {}

Picos Link::time_of(uint32_t bytes, double gbps) {
  return Picos(std::llround((bytes + kLinkOverhead) * 8000.0 / gbps));
}

void Link::send(Packet& packet) {
  queue_.push(packet);
  if (!sending_ && !paused_) start();
}

void Link::start() {
  sending_ = true;
  events_.schedule(events_.now() + time_of(queue_.front().length, options_.gbps), *this, left);
}

void Link::on_event(uint64_t what) {
  switch (what) {
    case left: return leave();
    case arrived: return arrive();
    default: return set_paused(what == pause);
  }
}

void Link::leave() {
  Packet& packet = queue_.pop();
  ++counters_.packets;
  counters_.bytes += packet.length + kLinkOverhead;
  sending_ = false;
  if (!queue_.empty() && !paused_) start();
  near_.device.on_left(packet, near_.port);
  const bool lost = options_.loss > 0 && random_.chance(options_.loss);
  if (!up_ || lost) {
    ++(up_ ? counters_.lost : counters_.cut);
    pool_.give_back(packet);
    return;
  }
  packet.arrives = events_.now() + options_.delay;
  if (flying_.empty()) events_.schedule(packet.arrives, *this, arrived);
  flying_.push(packet);
}

// One event waits for all packets on the link, so that few stand in the queue of events.
void Link::arrive() {
  Packet& packet = flying_.pop();
  if (!flying_.empty()) events_.schedule(flying_.front().arrives, *this, arrived);
  far_.device.receive(packet, far_.port);
}

void Link::ask_to_pause(bool paused) {
  events_.schedule(events_.now() + options_.delay, *this, paused ? pause : resume);
}

// IEEE 802.1Q, 36: the packet that is being sent is finished.
void Link::set_paused(bool paused) {
  paused_ = paused;
  if (paused) {
    ++counters_.pauses;
    paused_since_ = events_.now();
    return;
  }
  counters_.paused += events_.now() - paused_since_;
  if (!sending_ && !queue_.empty()) start();
}

}  // namespace uroce::sim
