#include "dropin/rsocket/peer.h"

#include <bit>

namespace uroce::dropin::rsocket {

namespace {

constexpr bool kHostIsBigEndian = std::endian::native == std::endian::big;

}  // namespace

int Peer::make(ibv_pd* pd, uint32_t mappings) {
  mappings_ = mappings;
  const std::size_t bytes = wire::kTargets * sizeof(wire::Target) + mappings * sizeof(wire::Mapping);
  return tables_.make(pd, bytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
}

void Peer::describe(wire::Greeting& greeting) const {
  greeting.big_endian = kHostIsBigEndian;
  greeting.maps = true;
  greeting.mappings = mappings_;
  greeting.targets = {tables_.address(), tables_.rkey(), wire::kTargets};
}

void Peer::take_greeting(const wire::Greeting& peer) {
  swaps_ = peer.big_endian != kHostIsBigEndian;
  remote_targets_ = peer.targets;
  remote_target_ = 1;  // the first entry is the buffer of our greeting
  remote_mappings_ = peer.targets.address + uint64_t{peer.targets.length} * sizeof(wire::Target);
  volatile wire::Target& first = targets()[0];
  first.address = peer.buffer.address;
  first.key = peer.buffer.key;
  first.length = peer.buffer.length;
  limit_ = peer.credits;
}

void Peer::use_room(uint32_t bytes) {
  volatile wire::Target& from = targets()[target_];
  from.address = from.address + bytes;
  from.length = from.length - bytes;
  if (from.length == 0) target_ = (target_ + 1) % wire::kTargets;
}

/// The peer may write the table at any time: read each entry once.
std::optional<wire::Mapping> Peer::find_mapping(uint64_t offset) const {
  const auto* entries = reinterpret_cast<const volatile wire::Mapping*>(targets() + wire::kTargets);
  for (uint32_t i = 0; i < mappings_; ++i) {
    const wire::Mapping entry{entries[i].offset,
                              {entries[i].memory.address, entries[i].memory.key, entries[i].memory.length}};
    if (offset >= entry.offset && offset - entry.offset < entry.memory.length) return entry;
  }
  return std::nullopt;
}

}  // namespace uroce::dropin::rsocket
