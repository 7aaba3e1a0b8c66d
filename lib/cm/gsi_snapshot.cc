// The MADs that wait in a queue pair 1, for that of another daemon.
#include <algorithm>
#include <cstring>
#include <utility>

#include "cm/gsi.h"
#include "queues/layout.h"

namespace uroce::cm {

// The engine has not taken these from the send queue, or has not said yet that it is done with them.
void Gsi::add_unconsumed(GsiSnapshot& out) const {
  std::map<uint32_t, const Destination*> destinations;
  for (const auto& [destination, handle] : handles_) destinations.emplace(handle->id(), &destination);
  const queues::RingPlace ring = std::as_const(*qp_).send_queue();
  const uint32_t end = ring.header->producer.load(std::memory_order_acquire);
  uint32_t at = ring.header->consumer.load(std::memory_order_acquire);
  if (end - at > ring.entries) return;
  for (; at != end; ++at) {
    const std::byte* const slot = ring.slot(at);
    const auto& wqe = *reinterpret_cast<const queues::SendWqe*>(slot);
    const auto found = destinations.find(wqe.ud.ah);
    if (found == destinations.end() || wqe.inline_length != kMadBytes) continue;
    const auto& [sgid, dgid, traffic_class, hop_limit, flow_label] = *found->second;
    auto& mad = out.outgoing.emplace_back();
    mad.path = {
        .sgid = sgid, .dgid = dgid, .traffic_class = traffic_class, .hop_limit = hop_limit, .flow_label = flow_label};
    std::memcpy(mad.mad.data(), slot + sizeof(queues::SendWqe), kMadBytes);
  }
}

GsiSnapshot Gsi::snapshot(Nanos now) {
  const Handler keep = [this](const Gid& source, const Gid& destination, std::span<const std::byte> mad) {
    auto& one = arrived_.emplace_back(IncomingSnapshot{.source = source, .destination = destination});
    std::memcpy(one.mad.data(), mad.data(), kMadBytes);
  };
  std::array<Completion, 64> completions;
  while (const std::size_t count = poller_->poll(completions)) {
    for (const Completion& completion : std::span(completions).first(count)) accept(completion, keep);
  }
  GsiSnapshot out{.incoming = {arrived_.begin(), arrived_.end()}};
  add_unconsumed(out);
  for (const auto* waiting : {&unsent_, &unresolved_}) {
    for (const Outgoing& one : *waiting) out.outgoing.push_back({one.path, one.mad, now - one.since});
  }
  return out;
}

void Gsi::adopt(GsiSnapshot snapshot, Nanos now) {
  for (const OutgoingSnapshot& one : snapshot.outgoing) {
    send(one.path, one.mad, now - std::clamp<Nanos>(one.waited, Nanos(0), std::chrono::seconds(3)));
  }
  std::ranges::move(snapshot.incoming, std::back_inserter(arrived_));
}

}  // namespace uroce::cm
