// Creating a queue pair: sizes, engine, QPN, memory, and attaching it to the engine.
#include <algorithm>
#include <bit>
#include <cerrno>
#include <optional>

#include <fmt/format.h>

#include "base/wr_opcodes.h"
#include "control/cq.h"
#include "control/device_session.h"
#include "control/engine_of.h"
#include "control/qp.h"
#include "control/srq.h"
#include "control/xrc_domain.h"
#include "settings/names.h"

namespace uroce::control {
namespace {

uint32_t ring_entries(uint32_t max_wr) { return std::bit_ceil(std::max(1u, max_wr)); }
uint32_t sq_stride(const QpCap& cap) { return queues::send_stride(cap.max_send_sge, cap.max_inline_data); }
uint32_t rq_stride(const QpCap& cap) { return queues::recv_stride(cap.max_recv_sge); }

struct Limit {
  const char* what;
  uint32_t value;
  uint32_t max;
};

/// The engine that a new queue pair must have: the SRQ's or the XRC domain's, or the one asked for; nullopt for any.
Result<std::optional<uint32_t>> required_engine(const QpInit& init, const ControlSrq* srq, const XrcDomain* domain,
                                                uint32_t engines) {
  if (init.engine >= static_cast<int>(engines) || init.engine < -1) {
    return fail(EINVAL, fmt::format("QpInit::engine is {}; the device has engines 0 to {}, and -1 lets it choose",
                                    init.engine, engines - 1));
  }
  if (domain != nullptr) return domain->engine();
  if (srq == nullptr) return init.engine >= 0 ? std::optional(static_cast<uint32_t>(init.engine)) : std::nullopt;
  if (init.engine >= 0 && static_cast<uint32_t>(init.engine) != srq->engine()) {
    return fail(EINVAL, fmt::format("QpInit::engine is {}, but shared receive queue {} lives on engine {}; use -1",
                                    init.engine, srq->id(), srq->engine()));
  }
  return srq->engine();
}

/// Only RC and XRC have loss recovery and congestion control; a choice for another type would have no effect.
Result<void> check_choices(const QpInit& init) {
  using namespace settings;
  const bool chooses = init.retransmission != Retransmission::device_default;
  if (chooses && !is_known(kRetransmissionNames, init.retransmission)) {
    return fail(EINVAL, fmt::format("unknown QpInit::retransmission {}; it must be 0 to 3",
                                    static_cast<int>(init.retransmission)));
  }
  const bool chooses_congestion = init.congestion_control != CongestionAlgorithm::device_default;
  if (chooses_congestion && !is_known(kCongestionNames, init.congestion_control)) {
    return fail(EINVAL, fmt::format("unknown QpInit::congestion_control {}; it must be 0 to 3",
                                    static_cast<int>(init.congestion_control)));
  }
  if (is_reliable(init.type) || (!chooses && !chooses_congestion)) return {};
  return fail(EINVAL, fmt::format("QpInit::{} is \"{}\", but only RC and XRC queue pairs have it; leave device_default",
                                  chooses ? "retransmission" : "congestion_control",
                                  chooses ? name(init.retransmission) : name(init.congestion_control)));
}

}  // namespace

Result<QpCap> ControlQp::round_up(QpCap cap, bool with_srq) {
  // ibv_create_qp(3): with a shared receive queue these are ignored.
  if (with_srq) cap.max_recv_wr = cap.max_recv_sge = 0;
  const Limit limits[] = {
      {"max_send_wr", cap.max_send_wr, kMaxQpWr},           {"max_recv_wr", cap.max_recv_wr, kMaxQpWr},
      {"max_send_sge", cap.max_send_sge, kMaxSge},          {"max_recv_sge", cap.max_recv_sge, kMaxSge},
      {"max_inline_data", cap.max_inline_data, kMaxInline},
  };
  for (const Limit& limit : limits) {
    if (limit.value <= limit.max) continue;
    return fail(EINVAL, fmt::format("QpCap::{} is {}; it must be at most {}", limit.what, limit.value, limit.max));
  }
  // Slots are a multiple of a cache line: the application gets the remainder.
  QpCap rounded;
  rounded.max_send_wr = ring_entries(cap.max_send_wr);
  const uint32_t send_tail = sq_stride(cap) - static_cast<uint32_t>(sizeof(queues::SendWqe));
  rounded.max_send_sge = std::min(kMaxSge, send_tail / static_cast<uint32_t>(sizeof(Sge)));
  rounded.max_inline_data = std::min(kMaxInline, send_tail);
  rounded.max_recv_wr = with_srq ? 0 : ring_entries(cap.max_recv_wr);
  const uint32_t recv_tail = rq_stride(cap) - static_cast<uint32_t>(sizeof(queues::RecvWqe));
  rounded.max_recv_sge = with_srq ? 0 : std::min(kMaxSge, recv_tail / static_cast<uint32_t>(sizeof(Sge)));
  return rounded;
}

Result<std::shared_ptr<ControlQp>> ControlQp::create(DeviceSession& session, Refs refs, const QpInit& init, bool gsi,
                                                     const QpIdentity* as) {
  Device& device = *session.device();
  const bool target = refs.xrc_domain != nullptr;
  const bool with_srq = refs.srq != nullptr || is_xrc(init.type);
  const auto cap = round_up(init.cap, with_srq);
  if (!cap) return std::unexpected(cap.error());
  if (!is_known(init.type)) {
    return fail(EOPNOTSUPP,
                fmt::format("{} has queue pairs of types RC, UC, UD, XRC and raw packet only", device.config().name));
  }

  if (auto ok = check_choices(init); !ok) return std::unexpected(ok.error());

  auto memory = session.allocator().allocate(queues::QpPlace::bytes(*cap, with_srq));
  if (!memory) return std::unexpected(memory.error());
  auto lock = device.runner().lock();
  if (auto alive = device.check_alive(); !alive) return std::unexpected(alive.error());
  const auto required = required_engine(init, refs.srq.get(), refs.xrc_domain.get(), device.engines());
  if (!required) return std::unexpected(required.error());
  const uint32_t engine = as != nullptr ? engine_of(device, as->qpn)
                          : gsi         ? engine_of(device, transport::kGsiQpn)
                          : *required   ? **required
                                        : device.choose_engine();
  if (engine >= device.engines() || (as != nullptr && *required && **required != engine)) {
    return fail(EINVAL,
                fmt::format("queue pair {:#x} is not of an engine that {} has for it", as->qpn, device.config().name));
  }
  // A target is of another session than it was.
  const auto doorbells = as != nullptr && !target ? session.take_doorbell(engine, as->on_large_doorbells)
                                                  : session.take_doorbell(engine, lock);
  if (!doorbells) return std::unexpected(doorbells.error());
  QpNumbers& numbers = device.objects().qp_numbers();
  const auto qpn = as != nullptr ? numbers.take(engine, as->qpn) : gsi ? numbers.take_gsi() : numbers.take(engine);
  if (!qpn) {
    session.doorbells().give_back(engine, *doorbells);
    return std::unexpected(qpn.error());
  }

  transport::QpSpec spec{.qpn = *qpn, .type = init.type, .pd = refs.pd->id(), .cap = *cap};
  spec.signal_all = init.signal_all;
  spec.retransmission = init.retransmission;
  spec.congestion = init.congestion_control;
  spec.window_packets = device.engine(engine).config().window_packets;
  spec.doorbell_ring = session.id();
  if (refs.send_cq != nullptr) spec.send_cq = &refs.send_cq->writer(engine);
  if (refs.recv_cq != nullptr) spec.recv_cq = &refs.recv_cq->writer(engine);
  if (refs.srq != nullptr) spec.srq = &refs.srq->shared();
  if (target) spec.xrc_domain = refs.xrc_domain->id();
  const auto place = queues::QpPlace::at((*memory)->data(), *cap, with_srq);
  spec.sq_doorbell = place.doorbell;
  spec.sq = place.sq;
  spec.rq = place.rq;
  spec.held_recv = place.held_recv;
  auto core = transport::make_qp(spec);
  if (!core) {
    numbers.give_back(engine, *qpn);
    session.doorbells().give_back(engine, *doorbells);
    return std::unexpected(core.error());
  }

  std::unique_ptr<ControlQp> qp(
      new ControlQp(std::move(refs), engine, *doorbells, spec, std::move(*memory), std::move(*core)));
  if (!target) device.events().add(EventObject::qp, *qpn, session.events());
  bool attached = false;
  const auto work = [&](transport::Engine& e) { attached = e.attach(*qp->core_); };
  auto ran = device.runner().run(engine, work);
  if (ran && attached) return std::shared_ptr<ControlQp>(qp.release(), &ControlQp::destroy);
  qp->release();
  if (!ran) return std::unexpected(ran.error());
  return fail(ENOMEM,
              fmt::format("engine {} of {} has no free entry for QP {:#x}", engine, device.config().name, *qpn));
}

Result<std::shared_ptr<ControlQp>> DeviceSession::create_qp(std::shared_ptr<Pd> pd, std::shared_ptr<Cq> send_cq,
                                                            std::shared_ptr<Cq> recv_cq, const QpInit& init,
                                                            std::shared_ptr<ControlSrq> srq, const QpIdentity* as) {
  if (auto ok = check_owner(pd.get(), pd ? pd->session().get() : nullptr, "protection domain"); !ok) {
    return std::unexpected(ok.error());
  }
  if (init.type == QpType::xrc_target) {
    return fail(EINVAL, "an XRC target queue pair needs an XRC domain in place of queues; create it from the domain");
  }
  if (init.type == QpType::raw_packet && device()->info().sending == Sending::by_udp_socket) {
    return fail(EOPNOTSUPP,
                fmt::format("device {} sends and receives by a UDP socket, which carries no raw packets; give "
                            "the daemon CAP_NET_RAW",
                            device()->config().name));
  }
  if (init.type == QpType::xrc_initiator && srq != nullptr) {
    return fail(
        EINVAL,
        fmt::format("an XRC initiator receives nothing, but shared receive queue {} is given; give none", srq->id()));
  }
  if (srq != nullptr && srq->is_xrc()) {
    return fail(EINVAL, fmt::format("shared receive queue {} is of an XRC domain, whose target queue pairs alone it "
                                    "serves; give another",
                                    srq->id()));
  }
  for (const auto& cq : {send_cq, recv_cq}) {
    if (auto ok = check_owner(cq.get(), cq ? cq->session().get() : nullptr, "completion queue"); !ok) {
      return std::unexpected(ok.error());
    }
  }
  if (srq != nullptr) {
    if (auto ok = check_owner(srq.get(), srq->pd()->session().get(), "shared receive queue"); !ok) {
      return std::unexpected(ok.error());
    }
  }
  return ControlQp::create(*this, {std::move(pd), std::move(send_cq), std::move(recv_cq), std::move(srq), nullptr},
                           init, false, as);
}

Result<std::shared_ptr<ControlQp>> DeviceSession::create_gsi_qp(std::shared_ptr<Pd> pd, std::shared_ptr<Cq> cq,
                                                                const QpCap& cap) {
  if (cq != nullptr) {
    const auto lock = device_->runner().lock();
    if (auto left_alone = cq->exempt(); !left_alone) return std::unexpected(left_alone.error());
  }
  return ControlQp::create(*this, {std::move(pd), cq, cq, nullptr, nullptr}, {.type = QpType::ud, .cap = cap}, true);
}

}  // namespace uroce::control
