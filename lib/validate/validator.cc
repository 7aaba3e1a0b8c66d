#include "validate/validator.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/wr_opcodes.h"
#include "validate/requests.h"
#include "validate/transitions.h"

namespace uroce::validate {

namespace {

template <class Map>
auto* at(Map& map, Id id) {
  const auto found = map.find(id);
  return found != map.end() ? &found->second : nullptr;
}

/// How many requests of a queue use a key.
std::size_t users_of(uint32_t key, const std::deque<Pending>& requests) {
  return static_cast<std::size_t>(std::ranges::count_if(
      requests, [key](const Pending& one) { return std::ranges::find(one.keys, key) != one.keys.end(); }));
}

}  // namespace

void Validator::resize_cq(Id cq, uint32_t entries) {
  if (Cq* found = at(cqs_, cq)) found->facts.entries = entries;
}

void Validator::add_srq(Id srq, const SrqFacts& facts) {
  remove_srq(srq);
  srqs_[srq].facts = facts;
}

void Validator::remove_srq(Id srq) {
  Srq* found = at(srqs_, srq);
  if (found == nullptr) return;
  for (Pending& pending : found->receives) end(pending);
  srqs_.erase(srq);
}

void Validator::add_qp(Id qp, const QpFacts& facts) {
  remove_qp(qp);
  qps_[qp].facts = facts;
  by_number_[{facts.device, facts.number}] = qp;
}

void Validator::remove_qp(Id qp) {
  Qp* found = at(qps_, qp);
  if (found == nullptr) return;
  end_all(*found);
  const auto number = by_number_.find({found->facts.device, found->facts.number});
  if (number != by_number_.end() && number->second == qp) by_number_.erase(number);
  qps_.erase(qp);
}

void Validator::set_state(Id qp, QpState state) {
  Qp* found = at(qps_, qp);
  if (found == nullptr) return;
  found->state = state;
  if (state != QpState::reset) return;
  end_all(*found);
  found->failed = false;
}

void Validator::set_operations(Id qp, uint64_t opcodes) {
  if (Qp* found = at(qps_, qp)) found->facts.operations = opcodes;
}

void Validator::set_max_rd_atomic(Id qp, uint8_t most) {
  if (Qp* found = at(qps_, qp)) found->facts.max_rd_atomic = most;
}

Found Validator::modify(Id qp, QpState from, QpState to, QpAttrMask mask) const {
  const Qp* found = at(qps_, qp);
  if (found == nullptr) return {};
  const auto call = fmt::format("ibv_modify_qp() of queue pair {:#x}", found->facts.number);
  const auto fault = check_transition(found->facts.type, from, to, mask, call);
  return fault ? Found{*fault} : Found{};
}

Found Validator::region_goes(Key key, const char* call) const {
  std::size_t users = 0;
  std::string where;
  const auto count = [&](const std::deque<Pending>& requests, const std::string& queue) {
    const std::size_t here = users_of(key.second, requests);
    if (here != 0 && users == 0) where = queue;
    users += here;
  };
  for (const auto& [id, qp] : qps_) {
    if (qp.facts.device != key.first || !qp.active()) continue;
    count(qp.sends, fmt::format("queue pair {:#x}", qp.facts.number));
    count(qp.receives, fmt::format("queue pair {:#x}", qp.facts.number));
  }
  for (const auto& [id, srq] : srqs_) {
    const bool served = std::ranges::any_of(
        qps_, [srq_id = id](const auto& entry) { return entry.second.facts.srq == srq_id && entry.second.active(); });
    if (srq.facts.device == key.first && served) {
      count(srq.receives, fmt::format("shared receive queue {}", srq.facts.number));
    }
  }
  if (users == 0) return {};
  return {
      {Misuse::region_in_use, fmt::format("{} of the region with lkey {:#x}, which {} posted requests use, first of {}",
                                          call, key.second, users, where)}};
}

Found Validator::ah_goes(Id device, uint32_t ah) const {
  for (const auto& [id, qp] : qps_) {
    const auto users = std::ranges::count(qp.sends, ah, &Pending::ah);
    if (qp.facts.device != device || qp.facts.type != QpType::ud || users == 0) continue;
    return {{Misuse::ah_in_flight,
             fmt::format("ibv_destroy_ah() of address handle {}, which {} sends of queue pair {:#x} use", ah, users,
                         qp.facts.number)}};
  }
  return {};
}

bool Validator::knows_queue(Id queue) const {
  return qps_.contains(queue) || cqs_.contains(queue) || srqs_.contains(queue);
}

void Validator::expect(Id cq, int64_t completions) {
  if (Cq* found = at(cqs_, cq)) found->outstanding += static_cast<uint64_t>(completions);
}

void Validator::check_room(Id cq, const std::string& name, Found& found) const {
  const Cq* queue = at(cqs_, cq);
  if (queue == nullptr || queue->facts.may_overrun || queue->outstanding <= queue->facts.entries) return;
  found.push_back(
      {Misuse::cq_overrun, fmt::format("with {}, {} requests may complete on completion queue {}, which has {} entries",
                                       name, queue->outstanding, queue->facts.number, queue->facts.entries)});
}

std::vector<Bytes> Validator::bytes_of(Id device, std::span<const Sge> sges) const {
  std::vector<Bytes> all;
  for (const Sge& sge : sges) {
    const Region* region = regions_.find({device, sge.lkey});
    if (sge.length == 0 || region == nullptr || !region->in_memory) continue;
    const uint64_t offset = sge.addr - region->base;
    if (offset > region->length || sge.length > region->length - offset) continue;
    all.push_back({region->host(sge.addr), region->host(sge.addr) + sge.length});
  }
  return all;
}

void Validator::hold(Id device, std::span<const Sge> sges, Pending& pending, const std::string& name, Found& found) {
  for (const Bytes& bytes : bytes_of(device, sges)) {
    if (const auto other = buffers_.overlapping(bytes)) {
      const auto misuse = *other == bytes ? Misuse::buffer_repeated : Misuse::buffer_overlap;
      found.push_back(
          {misuse, fmt::format("{} writes to the {} bytes at {:#x}, and one in flight to the {} bytes at {:#x}", name,
                               bytes.end - bytes.first, bytes.first, other->end - other->first, other->first)});
    }
    pending.written.push_back(buffers_.hold(bytes));
  }
}

void Validator::end(Pending& pending) {
  for (const Buffers::Held held : pending.written) buffers_.release(held);
  pending.written.clear();
}

void Validator::end_all(Qp& qp) {
  for (Pending& pending : qp.sends) {
    end(pending);
    if (pending.signalled) expect(qp.facts.send_cq, -1);
  }
  for (Pending& pending : qp.receives) end(pending);
  expect(qp.facts.recv_cq, -static_cast<int64_t>(qp.receives.size()));
  qp.sends.clear();
  qp.receives.clear();
}

Found Validator::post_send(Id id, const SendRequest& request) {
  Found found;
  Qp* qp = at(qps_, id);
  if (qp == nullptr) return found;
  ++requests_;
  const auto name = fmt::format("send {:#x} of queue pair {:#x}", request.wr_id, qp->facts.number);
  check_send(*qp, request, regions_, name, found);
  Pending pending{.wr_id = request.wr_id,
                  .signalled = qp->facts.signal_all || request.flags.has(SendFlag::signaled),
                  .ah = request.ah,
                  .keys = {},
                  .written = {},
                  .payload = {}};
  if (!request.flags.has(SendFlag::inline_data) && request.sges.size() <= qp->facts.cap.max_send_sge) {
    for (const Sge& sge : request.sges) pending.keys.push_back(sge.lkey);
    if (is_read_or_atomic(request.opcode)) {
      hold(qp->facts.device, request.sges, pending, name, found);
    } else if (!is_local(request.opcode)) {
      pending.payload.emplace(bytes_of(qp->facts.device, request.sges));
      if (pending.payload->read(reader_) == ReadResult::not_mapped) found.push_back({Misuse::memory_gone, name});
    }
  }
  if (pending.signalled) {
    expect(qp->facts.send_cq, 1);
    check_room(qp->facts.send_cq, name, found);
  }
  qp->sends.push_back(std::move(pending));
  const bool full = qp->sends.size() >= qp->facts.cap.max_send_wr;
  if (full && std::ranges::none_of(qp->sends, &Pending::signalled)) {
    found.push_back(
        {Misuse::never_signalled, fmt::format("{} is the last of {} without IBV_SEND_SIGNALED, and max_send_wr is {}",
                                              name, qp->sends.size(), qp->facts.cap.max_send_wr)});
    // Nobody will tell when these end.
    for (Pending& one : qp->sends) end(one);
    qp->sends.clear();
  }
  return found;
}

void Validator::unpost_send(Id id, std::size_t newest) {
  Qp* qp = at(qps_, id);
  for (; qp != nullptr && newest != 0 && !qp->sends.empty(); --newest) {
    end(qp->sends.back());
    if (qp->sends.back().signalled) expect(qp->facts.send_cq, -1);
    qp->sends.pop_back();
  }
}

Pending Validator::receive_of(const Owner& owner, uint32_t max_sge, const RecvRequest& request, const std::string& name,
                              Found& found) {
  ++requests_;
  check_entries(request.sges, max_sge, owner, true, regions_, name, found);
  Pending pending;
  pending.wr_id = request.wr_id;
  if (request.sges.size() > max_sge) return pending;
  for (const Sge& sge : request.sges) pending.keys.push_back(sge.lkey);
  hold(owner.device, request.sges, pending, name, found);
  return pending;
}

Found Validator::post_receive(Id id, const RecvRequest& request) {
  Found found;
  Qp* qp = at(qps_, id);
  if (qp == nullptr) return found;
  const auto name = fmt::format("receive {:#x} of queue pair {:#x}", request.wr_id, qp->facts.number);
  if (qp->state == QpState::reset) found.push_back({Misuse::receive_state, name + " is posted in RESET"});
  if (qp->facts.srq != nullptr) {
    found.push_back({Misuse::receive_with_srq, name});
    return found;
  }
  qp->receives.push_back(receive_of(qp->owner(), qp->facts.cap.max_recv_sge, request, name, found));
  expect(qp->facts.recv_cq, 1);
  check_room(qp->facts.recv_cq, name, found);
  return found;
}

void Validator::unpost_receive(Id id, std::size_t newest) {
  Qp* qp = at(qps_, id);
  for (; qp != nullptr && newest != 0 && !qp->receives.empty(); --newest) {
    end(qp->receives.back());
    qp->receives.pop_back();
    expect(qp->facts.recv_cq, -1);
  }
}

Found Validator::post_srq_receive(Id id, const RecvRequest& request) {
  Found found;
  Srq* srq = at(srqs_, id);
  if (srq == nullptr) return found;
  const auto name = fmt::format("receive {:#x} of shared receive queue {}", request.wr_id, srq->facts.number);
  const Owner owner{srq->facts.device, srq->facts.domain};
  srq->receives.push_back(receive_of(owner, srq->facts.max_sge, request, name, found));
  return found;
}

void Validator::unpost_srq_receive(Id id, std::size_t newest) {
  Srq* srq = at(srqs_, id);
  for (; srq != nullptr && newest != 0 && !srq->receives.empty(); --newest) {
    end(srq->receives.back());
    srq->receives.pop_back();
  }
}

Found Validator::completed(Id id, const Done& done) {
  const Cq* cq = at(cqs_, id);
  if (cq == nullptr) return {};
  const auto number = by_number_.find({cq->facts.device, done.qpn});
  Qp* qp = number != by_number_.end() ? at(qps_, number->second) : nullptr;
  if (qp != nullptr && !done.success) qp->failed = true;
  if (done.receive) {
    complete_receive(id, qp, done);
    return {};
  }
  return qp != nullptr ? complete_send(*qp, done) : Found{};
}

// A success ends the requests before it, too (IBTA vol. 1, 10.8.5.1). Unsignalled requests complete in error alone.
Found Validator::complete_send(Qp& qp, const Done& done) {
  const auto ended = std::ranges::find_if(
      qp.sends, [&done](const Pending& one) { return one.wr_id == done.wr_id && (one.signalled || !done.success); });
  Found found;
  if (ended == qp.sends.end()) return found;
  for (auto left = std::distance(qp.sends.begin(), ended) + 1; left > 0; --left) {
    Pending& pending = qp.sends.front();
    if (pending.payload && done.success && pending.payload->changed(reader_)) {
      found.push_back({Misuse::buffer_changed,
                       fmt::format("the bytes of send {:#x} of queue pair {:#x} are not those that were posted",
                                   pending.wr_id, qp.facts.number)});
    }
    if (pending.signalled) expect(qp.facts.send_cq, -1);
    end(pending);
    qp.sends.pop_front();
  }
  return found;
}

void Validator::complete_receive(Id cq, Qp* qp, const Done& done) {
  const auto take = [&](std::deque<Pending>& receives) {
    const auto found = std::ranges::find(receives, done.wr_id, &Pending::wr_id);
    if (found == receives.end()) return false;
    end(*found);
    receives.erase(found);
    return true;
  };
  Srq* srq = qp != nullptr ? at(srqs_, qp->facts.srq) : nullptr;
  if (srq != nullptr) {
    take(srq->receives);
  } else if (qp != nullptr && qp->facts.type != QpType::xrc_target) {
    if (take(qp->receives)) expect(qp->facts.recv_cq, -1);
  } else {
    // An XRC target takes receives of the domain's queues. One of another process has no queue pair here.
    for (auto& [id, one] : srqs_) {
      if (one.facts.cq == cq && take(one.receives)) return;
    }
  }
}

}  // namespace uroce::validate
