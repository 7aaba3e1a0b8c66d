#include "cm/ib/ib_cm.h"

#include <cerrno>
#include <utility>

#include <fmt/format.h>

#include "cm/ib/active_side.h"
#include "cm/ib/closing.h"
#include "cm/ib/passive_side.h"
#include "cm/ib/repeating.h"
#include "cm/ib/sidr.h"

namespace uroce::cm {

void IbCm::apply(CmRecord& r, CmOutcome out, Nanos now) {
  if (out.answered) table_.stop_waiting(r);
  switch (out.keys) {
    case CmOutcome::Keys::keep: break;
    case CmOutcome::Keys::enter: table_.enter(r); break;
    case CmOutcome::Keys::free_qpn: table_.free_qpn(r); break;
    case CmOutcome::Keys::free: table_.free(r); break;
  }
  switch (out.timer) {
    case CmOutcome::Timer::keep: break;
    case CmOutcome::Timer::stop: table_.stop_timer(r); break;
    case CmOutcome::Timer::start: table_.start_timer(r, now + out.after, now); break;
  }
  if (!r.c.owned && r.c.state == CmState::closed) table_.retire(r);
}

// Here and in connect(), one variable is returned on every path, so that the actions are built where the caller has
// them.
template <class Step>
Result<CmActions> IbCm::call(uint32_t id, std::string_view name, Nanos now, Step step) {
  Result<CmActions> actions;
  CmRecord* const r = table_.find(id);
  if (r == nullptr || !r->c.owned) {
    actions = fail(EINVAL, fmt::format("{}: no connection has the id {:#x}", name, id));
  } else if (const Result<CmOutcome> out = step(r->c, *actions)) {
    apply(*r, *out, now);
  } else {
    actions = std::unexpected(out.error());
  }
  return actions;
}

Result<void> IbCm::listen(uint64_t service_id, uint32_t backlog, uint64_t token) {
  const auto [it, fresh] = listeners_.try_emplace(service_id);
  if (!fresh) {
    return fail(EADDRINUSE, fmt::format("service {:#x} has a listener already; stop that listener, or choose another "
                                        "service",
                                        service_id));
  }
  it->second = {token, std::make_shared<Backlog>(backlog)};
  return {};
}

const IbCm::Listener* IbCm::listener_of(uint64_t service_id) const {
  const auto found = listeners_.find(service_id);
  return found != listeners_.end() ? &found->second : nullptr;
}

Result<IbCm::Started> IbCm::connect(const CmRequest& request, Nanos now) {
  Result<Started> started;
  CmRecord* r = nullptr;
  if (auto good = active_side::check(request); !good) {
    started = std::unexpected(good.error());
  } else if (r = table_.add(); r == nullptr) {
    started = fail(ENOMEM, fmt::format("connect: all {} connections are in use; raise max_connections, or close some",
                                       table_.size()));
  } else {
    r->c.active = true;
    r->c.request = request;
    r->c.local_qpn = request.qpn;
    r->c.transaction_id = ctx_.transaction_ids.next();
    started->id = r->c.id;
    apply(*r,
          r->c.ud() ? sidr::connect(ctx_, r->c, started->actions) : active_side::connect(ctx_, r->c, started->actions),
          now);
  }
  return started;
}

Result<CmActions> IbCm::accept(uint32_t id, const CmReply& reply, Nanos now) {
  return call(id, "accept", now,
              [&](CmConnection& c, CmActions& actions) { return passive_side::accept(ctx_, c, reply, actions); });
}

Result<CmActions> IbCm::ready(uint32_t id, std::span<const std::byte> private_data, Nanos now) {
  return call(id, "ready", now,
              [&](CmConnection& c, CmActions& actions) { return active_side::ready(ctx_, c, private_data, actions); });
}

Result<CmActions> IbCm::notify_established(uint32_t id, Nanos now) {
  return call(id, "notify_established", now, passive_side::notify_established);
}

Result<CmActions> IbCm::reject(uint32_t id, RejReason reason, std::span<const std::byte> info,
                               std::span<const std::byte> private_data, Nanos now) {
  return call(id, "reject", now, [&](CmConnection& c, CmActions& actions) {
    return closing::reject(ctx_, c, reason, info, private_data, actions);
  });
}

Result<CmActions> IbCm::disconnect(uint32_t id, std::span<const std::byte> private_data, Nanos now) {
  return call(id, "disconnect", now,
              [&](CmConnection& c, CmActions& actions) { return closing::disconnect(ctx_, c, private_data, actions); });
}

CmActions IbCm::destroy(uint32_t id, Nanos now) {
  CmActions actions;
  CmRecord* const r = table_.find(id);
  if (r != nullptr && r->c.owned) apply(*r, closing::destroy(ctx_, r->c, actions), now);
  return actions;
}

std::optional<CmActions> IbCm::poll(Nanos now) {
  std::optional<CmActions> actions;
  if (CmRecord* const r = table_.take_due(now)) {
    apply(*r, repeating::on_timer(ctx_, r->c, actions.emplace()), now);
  }
  return actions;
}

const CmConnection* IbCm::find(uint32_t id) const {
  const CmRecord* const r = table_.find(id);
  return r != nullptr && r->c.owned ? &r->c : nullptr;
}

// --- Requests that wait for an application ---------------------------------------------------------------------

CmActions IbCm::admit(CmArrival arrival, std::shared_ptr<Backlog> backlog) {
  CmActions actions;
  if (!backlog) {
    const Listener* const listener = listener_of(arrival.request.service_id);
    if (listener == nullptr) {
      ctx_.counters.no_listener.add();
      return actions;
    }
    backlog = listener->backlog;
  }
  if (backlog->full() && !make_room(*backlog, arrival.request.path.dgid, actions)) {
    ctx_.counters.backlog_full.add();
    return actions;
  }
  CmRecord* const r = table_.add();
  if (r == nullptr) {
    ctx_.counters.table_full.add();
    return actions;
  }
  const CmOutcome out = passive_side::on_arrival(r->c, std::move(arrival), actions);
  table_.wait(*r, std::move(backlog));
  apply(*r, out, Nanos(0));
  return actions;
}

/// Withdraws a request that must make room in a full backlog. False if `peer` has no claim to a place.
bool IbCm::make_room(const Backlog& backlog, const Gid& peer, CmActions& actions) {
  const auto id = backlog.displaced_by(peer);
  if (!id) return false;
  ctx_.counters.withdrawn.add();
  table_.erase(*table_.find(*id));
  auto& event = actions.add<CmMessage>();
  event.kind = CmEventKind::withdrawn;
  event.id = *id;
  return true;
}

std::optional<CmActions> IbCm::move_request(uint32_t id, const std::shared_ptr<Backlog>& backlog) {
  std::optional<CmActions> actions(std::in_place);
  CmRecord* const r = table_.find(id);
  if (r == nullptr) {
    actions.reset();
  } else if (r->waits_in != nullptr && r->waits_in != backlog) {
    if (backlog->full() && !make_room(*backlog, r->c.path().dgid, *actions)) {
      ctx_.counters.backlog_full.add();
      table_.erase(*r);
      actions.reset();
    } else {
      table_.wait(*r, backlog);
    }
  }
  return actions;
}

void IbCm::drop_request(uint32_t id) {
  if (CmRecord* const r = table_.find(id); r != nullptr && r->waits_in) table_.erase(*r);
}

void IbCm::delivered(uint32_t id) {
  CmRecord* const r = table_.find(id);
  if (r == nullptr) return;
  table_.stop_waiting(*r);
  r->c.delivered = true;
}

}  // namespace uroce::cm
