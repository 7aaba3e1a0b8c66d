#include "cm/ib_cm.h"
#include "base/random.h"

#include <cerrno>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "cm/ib_cm_impl.h"

namespace uroce::cm {

std::size_t PeerKeyHash::operator()(const PeerKey& key) const {
  uint64_t halves[2];
  std::memcpy(halves, key.gid.bytes.data(), sizeof halves);
  uint64_t hash = seed;
  for (const uint64_t word : {halves[0], halves[1], uint64_t{key.number} << 8 | static_cast<uint8_t>(key.space)}) {
    hash = Random(hash ^ word).next();
  }
  return hash;
}

Result<void> check_private(std::span<const std::byte> data, std::size_t most, std::string_view message) {
  if (data.size() <= most) return {};
  return fail(EINVAL, fmt::format("{} bytes of private data do not fit into a {}, which has room for {}; send the rest "
                                  "over the connection",
                                  data.size(), message, most));
}

IbCm::Impl::Impl(const IbCmConfig& config_, IbCmHost& host_)
    : config(config_),
      host(host_),
      transaction_ids(config.seed.derive("tids")),
      permute_id(config.seed.derive("ids")),
      peers(0, PeerKeyHash{config.seed.plain_seed("peers")}) {}

CmRecord* IbCm::Impl::record(uint32_t id) {
  const auto it = records.find(id);
  return it == records.end() ? nullptr : &it->second;
}

/// The connection, if it is in one of `states`. Otherwise an error for `call`.
Result<CmRecord*> IbCm::Impl::record_in(uint32_t id, std::string_view call, std::initializer_list<CmState> states) {
  CmRecord* r = record(id);
  if (r == nullptr || !r->owned) return fail(EINVAL, fmt::format("{}: no connection has the id {:#x}", call, id));
  if (std::find(states.begin(), states.end(), r->state) != states.end()) return r;
  return fail(EINVAL, fmt::format("{}: connection {:#x} is in state '{}', which does not allow the call", call, id,
                                  name(r->state)));
}

/// The next communication id of a secret permutation: no id comes back before all were used, and peers cannot guess it.
uint32_t IbCm::Impl::fresh_id() { return permute_id(ids_given++, 32); }

/// A record with a new id; nullptr when the table is full.
CmRecord* IbCm::Impl::add_record() {
  if (records.size() >= config.max_connections) {
    if (spare.empty()) return nullptr;
    erase(*spare.front());
  }
  while (true) {
    const uint32_t id = fresh_id();
    if (id == 0) continue;
    const auto [it, fresh] = records.try_emplace(id);
    if (!fresh) continue;
    it->second.id = id;
    it->second.timer.owner = &it->second;
    return &it->second;
  }
}

void IbCm::Impl::erase(CmRecord& r) {
  timers.cancel(r.timer);
  release_keys(r);
  stop_waiting(r);
  if (r.spare) spare.erase(*r.spare);
  records.erase(r.id);
}

void IbCm::Impl::add_key(CmRecord& r, PeerKey::Space space, uint32_t number) {
  const PeerKey key{space, number, r.path().dgid};
  if (peers.emplace(key, &r).second) r.keys.push_back(key);
}

CmRecord* IbCm::Impl::find_peer(PeerKey::Space space, uint32_t number, const Gid& gid) {
  const auto it = peers.find({space, number, gid});
  return it == peers.end() ? nullptr : it->second;
}

void IbCm::Impl::release_keys(CmRecord& r) {
  for (const PeerKey& key : r.keys) peers.erase(key);
  r.keys.clear();
}

void IbCm::Impl::release_key(CmRecord& r, PeerKey::Space space) {
  std::erase_if(r.keys, [&](const PeerKey& key) { return key.space == space && peers.erase(key) == 1; });
}

void IbCm::Impl::stop_waiting(CmRecord& r) {
  if (r.waits_in) r.waits_in->remove(r.path().dgid, r.place);
  r.waits_in.reset();
}

/// Withdraws a request that must make room in a full backlog. False if `peer` has no claim to a place.
bool IbCm::Impl::make_room(const Backlog& backlog, const Gid& peer) {
  const auto id = backlog.displaced_by(peer);
  if (!id) return false;
  counters.withdrawn.add();
  erase(records.at(*id));
  host.on_event({.kind = CmEventKind::withdrawn, .id = *id});
  return true;
}

/// The connection between our id and the peer's id at `source`. If there is none, it is counted and nullptr returned.
CmRecord* IbCm::Impl::known(uint32_t our_id, uint32_t their_id, const Gid& source) {
  CmRecord* r = record(our_id);
  if (r != nullptr && !r->ud() && r->remote_id != 0 && r->remote_id == their_id && r->path().dgid == source) return r;
  count_unknown(source);
  return nullptr;
}

void IbCm::Impl::count_unknown(const Gid& source) {
  counters.unknown_id.add();
  guesses.add(source, Guess::cm_id, mad_at);
}

std::shared_ptr<Listener> IbCm::Impl::listener_of(uint64_t service_id) {
  for (const auto& [mask, services] : listeners) {
    const auto it = services.find(service_id & mask);
    if (it != services.end()) return it->second;
  }
  return nullptr;
}

/// A record for a request to `listener`. If there is no room, the request is counted and nullptr returned.
CmRecord* IbCm::Impl::add_request(const std::shared_ptr<Listener>& listener, CmRequest request) {
  const Gid peer = request.path.dgid;
  std::shared_ptr<Backlog> backlog = host.backlog_of(listener->token, request);
  if (!backlog) backlog = listener->backlog;
  if (backlog->full() && !make_room(*backlog, peer)) {
    counters.backlog_full.add();
    return nullptr;
  }
  CmRecord* r = add_record();
  if (r == nullptr) {
    counters.table_full.add();
    return nullptr;
  }
  r->request = std::move(request);
  r->remote_qpn = r->request.qpn;
  r->remote_psn = r->request.psn;
  r->place = backlog->add(peer, r->id);
  r->waits_in = std::move(backlog);
  return r;
}

void IbCm::Impl::send(const CmPath& path, const Mad& mad, Counter& counter) {
  counter.add();
  host.send(path, mad);
}

void IbCm::Impl::send_again(const CmRecord& r) {
  counters.resent.add();
  host.send(r.path(), *r.last);
}

void IbCm::Impl::raise_event(CmRecord& r, CmMessage message) {
  if (!r.owned) return;
  message.id = r.id;
  host.on_event(message);
}

bool IbCm::Impl::move_request(uint32_t id, const std::shared_ptr<Backlog>& backlog) {
  CmRecord* const r = record(id);
  if (r == nullptr) return false;
  if (r->waits_in == nullptr || r->waits_in == backlog) return true;
  const Gid peer = r->path().dgid;
  if (backlog->full() && !make_room(*backlog, peer)) {
    counters.backlog_full.add();
    erase(*r);
    return false;
  }
  stop_waiting(*r);
  r->place = backlog->add(peer, id);
  r->waits_in = backlog;
  return true;
}

std::shared_ptr<Backlog> IbCmHost::backlog_of(uint64_t, const CmRequest&) { return nullptr; }

IbCm::IbCm(const IbCmConfig& config, IbCmHost& host) : impl_(std::make_unique<Impl>(config, host)) {}
IbCm::~IbCm() = default;

Result<void> IbCm::listen(uint64_t service_id, uint64_t mask, uint32_t backlog, uint64_t token) {
  auto& masks = impl_->listeners;
  auto at = std::find_if(masks.begin(), masks.end(), [&](const auto& entry) { return entry.first == mask; });
  if (at == masks.end()) {
    at = std::find_if(masks.begin(), masks.end(),
                      [&](const auto& entry) { return std::popcount(entry.first) < std::popcount(mask); });
    at = masks.insert(at, {mask, {}});
  }
  const auto [it, fresh] = at->second.try_emplace(service_id & mask);
  if (!fresh) {
    return fail(EADDRINUSE, fmt::format("service {:#x} with mask {:#x} has a listener already; stop that listener, or "
                                        "choose another service",
                                        service_id & mask, mask));
  }
  it->second = std::make_shared<Listener>(Listener{token, std::make_shared<Backlog>(backlog)});
  return {};
}

void IbCm::stop_listening(uint64_t service_id, uint64_t mask) {
  auto& masks = impl_->listeners;
  const auto at = std::find_if(masks.begin(), masks.end(), [&](const auto& entry) { return entry.first == mask; });
  if (at == masks.end()) return;
  at->second.erase(service_id & mask);
  if (at->second.empty()) masks.erase(at);
}

Result<uint32_t> IbCm::connect(const CmRequest& request, Nanos now) { return impl_->connect(request, now); }
Result<void> IbCm::accept(uint32_t id, const CmReply& reply, Nanos now) { return impl_->accept(id, reply, now); }
Result<void> IbCm::ready(uint32_t id, std::span<const std::byte> private_data, Nanos now) {
  return impl_->ready(id, private_data, now);
}
Result<void> IbCm::notify_established(uint32_t id, Nanos now) { return impl_->notify_established(id, now); }
Result<void> IbCm::reject(uint32_t id, RejReason reason, std::span<const std::byte> info,
                          std::span<const std::byte> private_data, Nanos now) {
  return impl_->reject(id, reason, info, private_data, now);
}
Result<void> IbCm::mra(uint32_t id, uint8_t timeout, std::span<const std::byte> private_data, Nanos now) {
  return impl_->mra(id, timeout, private_data, now);
}
bool IbCm::move_request(uint32_t id, const std::shared_ptr<Backlog>& backlog) {
  return impl_->move_request(id, backlog);
}
void IbCm::drop_request(uint32_t id) {
  if (CmRecord* const r = impl_->record(id); r != nullptr && r->waits_in) impl_->erase(*r);
}
void IbCm::delivered(uint32_t id) { impl_->delivered(id); }
Result<void> IbCm::disconnect(uint32_t id, std::span<const std::byte> private_data, Nanos now) {
  return impl_->disconnect(id, private_data, now);
}
void IbCm::destroy(uint32_t id, Nanos now) { impl_->destroy(id, now); }

const IbCm::Connection* IbCm::find(uint32_t id) const {
  const CmRecord* r = impl_->record(id);
  return r != nullptr && r->owned ? r : nullptr;
}
std::size_t IbCm::size() const { return impl_->records.size(); }
const IbCmCounters& IbCm::counters() const { return impl_->counters; }
std::vector<PeerGuesses> IbCm::guesses(Nanos now) const { return impl_->guesses.report(now); }

void IbCm::on_mad(const Gid& source, const Gid& destination, std::span<const std::byte> mad, Nanos now) {
  Impl& cm = *impl_;
  const auto header = parse_header(mad);
  if (!header) return cm.counters.malformed.add();
  cm.mad_at = now;
  const std::byte* body = mad.data() + kMadHeaderBytes;
  switch (header->attribute) {
    case CmAttribute::req: return cm.on_req(source, destination, *header, ReqMad::load(body), now);
    case CmAttribute::mra: return cm.on_mra(source, MraMad::load(body), now);
    case CmAttribute::rej: return cm.on_rej(source, RejMad::load(body), now);
    case CmAttribute::rep: return cm.on_rep(source, destination, *header, RepMad::load(body), now);
    case CmAttribute::rtu: return cm.on_rtu(source, RtuMad::load(body));
    case CmAttribute::dreq: return cm.on_dreq(source, destination, *header, DreqMad::load(body), now);
    case CmAttribute::drep: return cm.on_drep(source, DrepMad::load(body), now);
    case CmAttribute::sidr_req: return cm.on_sidr_req(source, destination, *header, SidrReqMad::load(body));
    case CmAttribute::sidr_rep: return cm.on_sidr_rep(source, SidrRepMad::load(body));
  }
  // LAP and APR, for alternate paths, are not supported: REPs say so.
  cm.counters.malformed.add();
}

void IbCm::poll(Nanos now) {
  impl_->polling = true;
  impl_->timers.advance(now, [&](TimerNode& node) { impl_->on_timer(*static_cast<CmRecord*>(node.owner), now); });
  impl_->polling = false;
}

Nanos IbCm::next_deadline() const { return impl_->timers.next_deadline(); }

}  // namespace uroce::cm
