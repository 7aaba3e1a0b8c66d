// Look-ups of keys and address handles: as recorded, in memory that nobody looks at.
#include <fmt/format.h>

#include "record/replayer.h"

namespace uroce::record {

memory::Translation Replayer::translate(memory::Key key, memory::PdId pd, uint64_t address, uint64_t length,
                                        AccessFlags needed, uint32_t) {
  const memory::RegionSpec* const region = region_of(key);
  memory::Translation found =
      region != nullptr ? memory::check_access(*region, pd, address, length, needed) : look_up(length, needed);
  // Wherever it is in its region, it is at the beginning of the scratch memory, aligned alike.
  if (region != nullptr && found.result == memory::AccessResult::ok) {
    if (length >= scratch_.size()) diverge(in_.peek(), fmt::format("the engine looks {} bytes up", length));
    found.host = scratch_.data() + reinterpret_cast<uintptr_t>(found.host) % sizeof(uint64_t);
  }
  if (watch_ != nullptr) {
    watch_->on_lookup({.key = key, .address = address, .length = length, .needed = needed, .result = found.result});
  }
  return found;
}

// nullptr: none was recorded.
const memory::RegionSpec* Replayer::region_of(memory::Key key) {
  if (const auto known = regions_.find(key); known != regions_.end()) return &known->second;
  if (in_.peek().kind != Kind::region || in_.peek().small == kRegionsGone) return nullptr;
  const auto was = read<RegionRecord>(in_.peek());
  if (was.key != key) return nullptr;
  take(Kind::region);
  const memory::RegionSpec region{.pd = was.pd,
                                  .address = was.address,
                                  .length = was.length,
                                  .host = scratch_.data() + was.alignment,
                                  .access = AccessFlags::from_bits(was.access)};
  return &regions_.emplace(key, region).first->second;
}

memory::Translation Replayer::look_up(uint64_t length, AccessFlags needed) {
  ++checks_;
  if (length >= scratch_.size()) diverge(in_.peek(), fmt::format("the engine looks {} bytes up", length));
  if (in_.peek().kind != Kind::check) return {memory::AccessResult::ok, scratch_.data()};
  const auto was = read<CheckRecord>(in_.peek());
  if (was.after != checks_) return {memory::AccessResult::ok, scratch_.data()};
  const Record record = take(Kind::check);
  checks_ = 0;
  if (was.result != memory::AccessResult::ok) return {was.result, nullptr};
  // As RegionTable::translate() says: of a null region reads find zeros, and writes no place.
  if (was.null && needed != AccessFlags(Access::local_write)) refuse(record, "memory is missing that is used");
  return {was.result, was.null ? nullptr : scratch_.data() + (was.misaligned ? 1 : 0)};
}

memory::AccessResult Replayer::key_result() {
  const Record record = take(Kind::key);
  const auto result = static_cast<memory::AccessResult>(record.small);
  if (record.small > static_cast<uint16_t>(memory::AccessResult::out_of_bounds))
    refuse(record, "its result is unknown");
  return result;
}

memory::AccessResult Replayer::invalidate(memory::Key key, memory::PdId, uint32_t) {
  const memory::AccessResult result = key_result();
  if (result == memory::AccessResult::ok) regions_.erase(key);
  if (watch_ != nullptr) watch_->on_lookup({.key = key, .result = result, .invalidates = true});
  return result;
}

const transport::AddressHandle* Replayer::find(transport::AddressHandleId id, memory::PdId) {
  ++handle_checks_;
  if (in_.peek().kind == Kind::handle) {
    if (const auto told = read<HandleRecord>(in_.peek()); told.after == handle_checks_) {
      take(Kind::handle);
      found_handles_[id] = told;
      handle_checks_ = 0;
    }
  }
  const auto found = found_handles_.find(id);
  if (found == found_handles_.end()) diverge(in_.peek(), fmt::format("the engine looks address handle {} up", id));
  const HandleRecord& record = found->second;
  if (!record.found) return nullptr;
  transport::AddressHandle& handle = known_handles_[id];
  handle.pd = record.pd;
  handle.route = record.route;
  handle.dst_mac.store(record.dst_mac);
  handle.dgid = record.dgid;
  handle.flow_label = record.flow_label;
  handle.loopback = record.loopback;
  handle.multicast = record.multicast;
  return &handle;
}

}  // namespace uroce::record
