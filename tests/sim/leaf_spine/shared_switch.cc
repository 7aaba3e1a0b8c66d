#include "tests/sim/leaf_spine/shared_switch.h"

#include <algorithm>
#include <utility>

#include "tests/sim/frames.h"

namespace uroce::sim {

Link& SharedSwitch::add_port(const LinkOptions& link, LinkEnd<PacketReceiver> far) {
  const auto port = static_cast<uint32_t>(links_.size());
  // Until the far end has paused come the bytes of two propagations, the frame that it had begun, and the one that
  // was admitted last.
  const double flying = 2 * static_cast<double>(link.delay.count()) * link.gbps / 8000;
  buffer_.add_port(static_cast<uint64_t>(flying) + 4 * FabricFrame::kMaxBytes);
  upstream_.push_back(nullptr);
  return *links_.emplace_back(std::make_unique<Link>(events_, pool_, link, LinkEnd<PacketSource>{*this, port}, far));
}

void SharedSwitch::set_ways(uint32_t first, uint32_t hosts, std::vector<uint32_t> ports) {
  const std::size_t end = std::size_t{first} + hosts;
  if (group_of_host_.size() < end) {
    group_of_host_.resize(end);
    groups_.resize(end);
  }
  std::fill_n(group_of_host_.begin() + first, hosts, first);
  groups_[first] = std::move(ports);
}

void SharedSwitch::drop(Packet& packet, uint64_t& counter) {
  ++counter;
  pool_.give_back(packet);
}

// RED's line between two thresholds of the queue, as DCQCN's switches have it.
void SharedSwitch::mark(Packet& packet, uint32_t out) {
  const EcnMarking& ecn = options_.ecn;
  if (ecn.kmax == 0) return;
  const double queued = static_cast<double>(buffer_.queued(out)) * 100 / links_[out]->options().gbps;
  const double kmin = static_cast<double>(ecn.kmin), kmax = static_cast<double>(ecn.kmax);
  if (queued <= kmin) return;
  if (queued <= kmax && !random_.chance(ecn.pmax * (queued - kmin) / (kmax - kmin))) return;
  if (!mark_congestion({packet.head.data(), packet.kept})) return;
  packet.marked = true;
  ++counters_.marked;
}

void SharedSwitch::receive(Packet& packet, uint32_t port) {
  ++counters_.received;
  const std::vector<uint32_t>& ways = groups_[group_of_host_[packet.to]];
  if (ways.empty()) return drop(packet, counters_.no_way);
  uint32_t out = ways.front();
  if (ways.size() > 1) out = ways[Random(options_.seed ^ packet.flow_key).below(ways.size())];
  if (!buffer_.admit(port, out, packet.length)) return drop(packet, counters_.dropped);
  packet.ingress = static_cast<uint16_t>(port);
  mark(packet, out);
  links_[out]->send(packet);
  if (buffer_.pauses(port)) upstream_[port]->ask_to_pause(true);
}

void SharedSwitch::on_left(const Packet& packet, uint32_t port) {
  buffer_.release(packet.ingress, port, packet.length);
  if (buffer_.resumes(packet.ingress)) upstream_[packet.ingress]->ask_to_pause(false);
}

}  // namespace uroce::sim
