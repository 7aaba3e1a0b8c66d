#include "dropin/ibverbs/validation.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

#include "dropin/common/foreign_enum.h"
#include "dropin/ibverbs/validation_session.h"
#include "dropin/ibverbs/verbs_wq.h"

namespace uroce::dropin::validation {

using validate::Misuse;
using validate::Validator;

namespace {

using Queue = Session::Queue;

validate::QpFacts facts_of(const VerbsQp& qp) {
  const ibv_qp& base = qp.qp_base;
  return {.device = device_of(base.context),
          .number = base.qp_num,
          .type = static_cast<QpType>(base.qp_type),
          .cap = qp.api.cap(),
          .signal_all = qp.signal_all,
          .domain = base.pd != nullptr ? &of(base.pd)->domain() : nullptr,
          .send_cq = base.send_cq,
          .recv_cq = base.recv_cq,
          .srq = base.srq,
          .datagram_limit = mtu_bytes(qp.ref->info().active_mtu)};
}

/// The opcodes that bits of enum ibv_qp_create_send_ops_flags stand for, a bit for each.
uint64_t opcodes_of(uint64_t operations) {
  constexpr WrOpcode kByBit[] = {WrOpcode::rdma_write,          WrOpcode::rdma_write_with_imm, WrOpcode::send,
                                 WrOpcode::send_with_imm,       WrOpcode::rdma_read,           WrOpcode::compare_swap,
                                 WrOpcode::fetch_add,           WrOpcode::local_invalidate,    WrOpcode::bind_mw,
                                 WrOpcode::send_with_invalidate};
  uint64_t opcodes = 0;
  for (std::size_t bit = 0; bit < std::size(kByBit); ++bit) {
    if ((operations >> bit & 1) != 0) opcodes |= uint64_t{1} << static_cast<unsigned>(kByBit[bit]);
  }
  if ((operations & later::kWithFlush) != 0) opcodes |= uint64_t{1} << static_cast<unsigned>(WrOpcode::flush);
  if ((operations & IBV_QP_EX_WITH_ATOMIC_WRITE) != 0) {
    opcodes |= uint64_t{1} << static_cast<unsigned>(WrOpcode::atomic_write);
  }
  return opcodes;
}

}  // namespace

void begin() {
  static const bool kRead = [] {
    const char* value = std::getenv("UROCE_VALIDATE");
    const validate::Options options = validate::parse_options(value != nullptr ? value : "");
    if (!options.unknown.empty()) {
      std::fprintf(stderr, "uroce: UROCE_VALIDATE has '%s', which is no word; see uroce-run --misuses\n",
                   options.unknown.c_str());
    }
    if (options.on) Session::get().begin(options);
    detail::active = options.on;
    return true;
  }();
  (void)kRead;
}

void made(const VerbsCq& cq, bool may_overrun, bool one_thread) {
  if (!on()) return;
  const validate::CqFacts facts{device_of(cq.context), cq.handle, static_cast<uint32_t>(cq.cqe), may_overrun};
  note([&](Validator& validator) { validator.add_cq(&cq, facts); });
  Session::get().add_queue(&cq, Queue::completions, false, one_thread);
}

void made(const VerbsSrq& srq, const VerbsCq* cq) {
  if (!on()) return;
  const validate::SrqFacts facts{device_of(srq.context), srq.handle, &of(srq.pd)->domain(), srq.attr.max_sge, cq};
  note([&](Validator& validator) { validator.add_srq(&srq, facts); });
  const bool shared = of(srq.pd)->shared_by_threads();
  Session::get().add_queue(&srq, Queue::receive, shared, !shared);
}

void made(const VerbsQp& qp) {
  if (!on()) return;
  const ibv_qp& base = qp.qp_base;
  const auto state = static_cast<QpState>(base.state);
  note([&](Validator& validator) {
    validator.add_qp(&qp, facts_of(qp));
    validator.set_state(&qp, state);
  });
  const bool shared = base.pd == nullptr || of(base.pd)->shared_by_threads();
  for (const Queue queue : {Queue::send, Queue::receive}) Session::get().add_queue(&qp, queue, shared, !shared);
}

void declared(const VerbsQp& qp, uint64_t operations) {
  if (!on()) return;
  note([&](Validator& validator) { validator.set_operations(&qp, opcodes_of(operations)); });
}

void made(const VerbsWq& wq) {
  if (!on()) return;
  const validate::QpFacts facts{.device = device_of(wq.context),
                                .number = wq.wq_num,
                                .type = QpType::raw_packet,
                                .cap = wq.api.cap(),
                                .domain = &of(wq.pd)->domain(),
                                .recv_cq = wq.cq};
  note([&](Validator& validator) {
    validator.add_qp(&wq, facts);
    validator.set_state(&wq, QpState::init);
  });
  const bool shared = of(wq.pd)->shared_by_threads();
  Session::get().add_queue(&wq, Queue::receive, shared, !shared);
}

void emptied(const VerbsWq& wq) {
  if (!on()) return;
  note([&](Validator& validator) {
    validator.set_state(&wq, QpState::reset);
    validator.set_state(&wq, QpState::init);
  });
}

void gone(const VerbsCq& cq) {
  if (!on()) return;
  Session::get().remove_queues(&cq);
  note([&](Validator& validator) { validator.remove_cq(&cq); });
}

void gone(const VerbsSrq& srq) {
  if (!on()) return;
  Session::get().remove_queues(&srq);
  note([&](Validator& validator) { validator.remove_srq(&srq); });
}

void gone_queue_pair(const void* object) {
  if (!on()) return;
  Session::get().remove_queues(object);
  note([&](Validator& validator) { validator.remove_qp(object); });
}

void resized(const VerbsCq& cq) {
  if (!on()) return;
  note([&](Validator& validator) { validator.resize_cq(&cq, static_cast<uint32_t>(cq.cqe)); });
}

void registered(const VerbsMr& mr, bool in_memory) {
  if (!on()) return;
  const validate::Region region{.domain = &of(mr.pd)->domain(),
                                .base = mr.base,
                                .length = mr.length,
                                .in_memory = in_memory,
                                .memory = reinterpret_cast<uint64_t>(mr.addr),
                                .local_write = (mr.access & IBV_ACCESS_LOCAL_WRITE) != 0};
  note([&](Validator& validator) { validator.add_region({device_of(mr.context), mr.lkey}, region); });
}

void will_go(const VerbsMr& mr, const char* call) {
  if (!on()) return;
  Session::get().with(
      [&](Validator& validator) { return validator.region_goes({device_of(mr.context), mr.lkey}, call); });
}

void gone(const VerbsMr& mr) {
  if (!on()) return;
  note([&](Validator& validator) { validator.remove_region({device_of(mr.context), mr.lkey}); });
}

void will_go(const VerbsAh& ah) {
  if (!on()) return;
  Session::get().with([&](Validator& validator) { return validator.ah_goes(device_of(ah.context), ah.handle); });
}

void will_modify(const VerbsQp& qp, const ibv_qp_attr& attr, int mask) {
  if (!on()) return;
  const auto from = static_cast<QpState>(qp.qp_base.state);
  const bool moves = (mask & IBV_QP_STATE) != 0;
  const auto to = moves ? to_api<QpState>(number_of(attr.qp_state)) : from;
  Session::get().with([&](Validator& validator) {
    return validator.modify(&qp, from, to, QpAttrMask::from_bits(static_cast<uint32_t>(mask)));
  });
}

void changed(const VerbsQp& qp) {
  if (!on()) return;
  const auto state = static_cast<QpState>(qp.qp_base.state);
  note([&](Validator& validator) { validator.set_state(&qp, state); });
}

void changed(const VerbsQp& qp, const ibv_qp_attr& attr, int mask) {
  if (!on() || (mask & IBV_QP_MAX_QP_RD_ATOMIC) == 0) return;
  note([&](Validator& validator) { validator.set_max_rd_atomic(&qp, attr.max_rd_atomic); });
}

void dead(const char* kind, const void* object) {
  if (on()) tell(Misuse::destroyed_object, Session::no_object(kind, object));
}

int busy(const char* call) {
  if (on()) tell(Misuse::object_in_use, fmt::format("{} fails with EBUSY", call));
  return failed(EBUSY);
}

void waits_for_acks(const char* what, uint32_t acknowledged, uint32_t delivered) {
  if (!on()) return;
  tell(Misuse::events_unacknowledged,
       fmt::format("destroying a {} waits: {} of its {} events were acknowledged", what, acknowledged, delivered));
}

void check_acks(const char* what, uint32_t acknowledged, const uint32_t& delivered) {
  if (!on() || acknowledged <= delivered) return;
  tell(Misuse::events_overacknowledged,
       fmt::format("{} events of a {} are acknowledged, and {} were got", acknowledged, what, delivered));
}

}  // namespace uroce::dropin::validation
