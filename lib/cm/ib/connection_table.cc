#include "cm/ib/connection_table.h"

#include <cstring>
#include <utility>

#include "base/random.h"

namespace uroce::cm {

namespace {

PeerKey id_key(const CmConnection& c) {
  return {c.ud() ? PeerKey::Space::sidr : PeerKey::Space::comm_id, c.remote_id, c.path().dgid};
}
PeerKey qpn_key(const CmConnection& c) { return {PeerKey::Space::qpn, c.remote_qpn, c.path().dgid}; }

}  // namespace

std::size_t PeerKeyHash::operator()(const PeerKey& key) const {
  uint64_t halves[2];
  std::memcpy(halves, key.gid.bytes.data(), sizeof halves);
  uint64_t hash = seed;
  for (const uint64_t word : {halves[0], halves[1], uint64_t{key.number} << 8 | static_cast<uint8_t>(key.space)}) {
    hash = Random(hash ^ word).next();
  }
  return hash;
}

ConnectionTable::ConnectionTable(const IbCmConfig& config)
    : most_(config.max_connections),
      permute_id_(config.seed.derive("ids")),
      peers_(0, PeerKeyHash{config.seed.plain_seed("peers")}) {}

CmRecord* ConnectionTable::find(uint32_t id) {
  const auto it = records_.find(id);
  return it == records_.end() ? nullptr : &it->second;
}

const CmRecord* ConnectionTable::find(uint32_t id) const {
  const auto it = records_.find(id);
  return it == records_.end() ? nullptr : &it->second;
}

CmRecord* ConnectionTable::find(const PeerKey& key) {
  const auto it = peers_.find(key);
  return it == peers_.end() ? nullptr : it->second;
}

/// Ids follow a secret permutation: no id comes back before all were used, and peers cannot guess it.
CmRecord* ConnectionTable::add() {
  if (records_.size() >= most_) {
    if (spare_.empty()) return nullptr;
    erase(*spare_.front());
  }
  while (true) {
    const uint32_t id = permute_id_(ids_given_++, 32);
    if (id == 0) continue;
    const auto [it, fresh] = records_.try_emplace(id);
    if (!fresh) continue;
    it->second.c.id = id;
    it->second.timer.owner = &it->second;
    return &it->second;
  }
}

void ConnectionTable::adopt(const CommIdsSnapshot& ids) {
  permute_id_ = SecretPermutation(ids.key);
  ids_given_ = ids.given;
}

std::vector<const CmRecord*> ConnectionTable::all() const {
  std::vector<const CmRecord*> out;
  for (const auto& [id, record] : records_) {
    if (!record.spare) out.push_back(&record);
  }
  out.insert(out.end(), spare_.begin(), spare_.end());
  return out;
}

CmRecord* ConnectionTable::adopt(const CmConnection& c) {
  if (records_.size() >= most_) return nullptr;
  const auto [it, fresh] = records_.try_emplace(c.id);
  if (!fresh) return nullptr;
  CmRecord& r = it->second;
  r.c = c;
  r.timer.owner = &r;
  r.c.found_by_id = c.found_by_id && peers_.emplace(id_key(c), &r).second;
  r.c.found_by_qpn = c.found_by_qpn && peers_.emplace(qpn_key(c), &r).second;
  if (r.c.found_by_id == c.found_by_id && r.c.found_by_qpn == c.found_by_qpn) return &r;
  erase(r);
  return nullptr;
}

void ConnectionTable::erase(CmRecord& r) {
  timers_.cancel(r.timer);
  free(r);
  stop_waiting(r);
  if (r.spare) spare_.erase(*r.spare);
  records_.erase(r.c.id);
}

void ConnectionTable::retire(CmRecord& r) {
  if (!r.timer.armed()) return erase(r);
  if (!r.spare) r.spare = spare_.insert(spare_.end(), &r);
}

void ConnectionTable::enter(CmRecord& r) {
  r.c.found_by_id = peers_.emplace(id_key(r.c), &r).second;
  if (!r.c.ud()) r.c.found_by_qpn = peers_.emplace(qpn_key(r.c), &r).second;
}

void ConnectionTable::free_qpn(CmRecord& r) {
  if (std::exchange(r.c.found_by_qpn, false)) peers_.erase(qpn_key(r.c));
}

void ConnectionTable::free(CmRecord& r) {
  free_qpn(r);
  if (std::exchange(r.c.found_by_id, false)) peers_.erase(id_key(r.c));
}

void ConnectionTable::wait(CmRecord& r, std::shared_ptr<Backlog> backlog) {
  stop_waiting(r);
  r.place = backlog->add(r.c.path().dgid, r.c.id);
  r.waits_in = std::move(backlog);
}

void ConnectionTable::stop_waiting(CmRecord& r) {
  if (r.waits_in) r.waits_in->remove(r.c.path().dgid, r.place);
  r.waits_in.reset();
}

void ConnectionTable::start_timer(CmRecord& r, Nanos deadline, Nanos now) {
  // The position of an idle wheel is in the past, and a wheel places nodes relative to its position: advance it first.
  if (timers_.next_deadline() == kNever) timers_.advance(now, [](TimerNode&) {});
  timers_.arm(r.timer, deadline);
}

void ConnectionTable::stop_timer(CmRecord& r) { timers_.cancel(r.timer); }

CmRecord* ConnectionTable::take_due(Nanos now) {
  TimerNode* const node = timers_.take_due(now);
  return node != nullptr ? static_cast<CmRecord*>(node->owner) : nullptr;
}

}  // namespace uroce::cm
