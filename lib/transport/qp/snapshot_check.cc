#include "transport/qp/snapshot_check.h"

#include <fmt/format.h>

#include "base/wr_opcodes.h"

namespace uroce::transport {
namespace {

using Contradiction = std::optional<std::string>;
constexpr std::nullopt_t kAgrees = std::nullopt;

// Is this what fetch_wqe() lets pass?
bool is_valid(const Qp& qp, const SendSlot& slot) {
  if (!offers(qp.type, slot.opcode)) return false;
  const bool bare = slot.num_sge == 0 && !slot.has(SendFlag::inline_data);
  if (slot.is_local()) return bare;
  if (slot.is_atomic() && slot.length != sizeof(uint64_t)) return false;
  if (slot.is_read_or_atomic() && slot.has(SendFlag::inline_data)) return false;
  if (!slot.is_placement()) return true;
  if (slot.opcode == WrOpcode::atomic_write) return bare;
  const SendSlot::PlacementFlush flush = slot.placement_flush();
  return bare && flush.length <= kMaxMessage && flush.scope <= UINT8_MAX &&
         is_placement_flush_target(PlacementFlags::from_bits(flush.placement), static_cast<FlushScope>(flush.scope));
}

// A send work request as fetch_wqe() leaves it.
Contradiction check_slot(const Qp& qp, const SendSlot& slot) {
  // One that was found wrong is never cut into packets.
  if (slot.status == WcStatus::success && !is_valid(qp, slot)) {
    return fmt::format("slot.opcode is {}, with what it does not take", static_cast<uint32_t>(slot.opcode));
  }
  uint64_t total = slot.inline_length;
  for (uint32_t i = 0; i < slot.num_sge; ++i) total += slot.sges()[i].length;
  if (slot.status == WcStatus::success && slot.length != total) {
    return fmt::format("slot.length is {}, but its entries have {} bytes", slot.length, total);
  }
  if (slot.has(SendFlag::inline_data) && slot.length > slot.inline_length) {
    return fmt::format("slot.length is {}, but {} bytes are inline", slot.length, slot.inline_length);
  }
  const uint32_t packets = slot.is_local() ? 0 : qp.packets_of(slot.length);
  if (slot.packets != packets) return fmt::format("slot.packets is {}; its length takes {}", slot.packets, packets);
  return kAgrees;
}

// Requests that have PSNs stand first, and their PSNs follow each other up to tx.next.
Contradiction check_requests(const Qp& qp) {
  const auto& tx = qp.tx;
  uint32_t started = 0;
  uint32_t rd_atomic = 0;
  uint32_t index = tx.oldest;
  for (; index != tx.sq.next(); ++index) {
    const SendSlot& slot = qp.slot(index);
    if (Contradiction wrong = check_slot(qp, slot)) return wrong;
    if (!slot.started) continue;
    if (index - tx.oldest != started++) return "slot.started is true behind one that has not started";
    const Psn end = index + 1 != tx.sq.next() && qp.slot(index + 1).started ? qp.slot(index + 1).first_psn : tx.next;
    if (slot.end_psn() != end)
      return fmt::format("slot.first_psn is {} with {} packets, but the next PSN is {}", slot.first_psn.value(),
                         slot.packets, end.value());
    rd_atomic += slot.has_response() ? 1 : 0;
  }
  if (is_reliable(qp.type) && tx.rd_atomic != rd_atomic) {
    return fmt::format("tx.rd_atomic is {}; {} have started", tx.rd_atomic, rd_atomic);
  }
  const uint32_t at = tx.cursor.index() - tx.oldest;
  if (at > started) return fmt::format("tx.cursor.index is {} requests ahead; {} have started", at, started);
  const bool on_request = tx.cursor.index() != tx.sq.next();
  const uint32_t packets = on_request && at < started ? qp.slot(tx.cursor.index()).packets : 0;
  // The copy of a datagram or raw frame to a group for this device leaves as packet 1 (datagram/ud.cc, raw_packet.cc).
  const uint32_t looped = !has_peer(qp.type) && packets == 1 ? 1 : 0;
  if (tx.cursor.packet() >= std::max(packets, 1u) + looped) {
    return fmt::format("tx.cursor.packet is {} of {}", tx.cursor.packet(), packets);
  }
  return kAgrees;
}

Contradiction check_psns(const Qp& qp) {
  const auto& tx = qp.tx;
  const bool any = tx.oldest != tx.sq.next() && qp.slot(tx.oldest).started;
  const Psn first = any ? qp.slot(tx.oldest).first_psn : tx.next;
  const Psn end = any ? qp.slot(tx.oldest).end_psn() : tx.next;
  if (distance(tx.una, first) < 0 || distance(tx.una, end) > 0) {
    return fmt::format("tx.una is {}; the oldest request has {} to {}", tx.una.value(), first.value(), end.value());
  }
  if (distance(tx.sent, tx.una) < 0 || distance(tx.sent, tx.next) > 0) {
    return fmt::format("tx.sent is {}; it lies from una {} to next {}", tx.sent.value(), tx.una.value(),
                       tx.next.value());
  }
  if (distance(tx.acked, tx.sent) > 0) {
    return fmt::format("tx.acked is {}, beyond sent {}", tx.acked.value(), tx.sent.value());
  }
  return kAgrees;
}

Contradiction check_responder(const Qp& qp) {
  const InboundMessage& message = qp.rx.message;
  if (message.recv_num_sge() > qp.cold->recv_sges.size()) {
    return fmt::format("rx.message.recv_num_sge is {} of {}", message.recv_num_sge(), qp.cold->recv_sges.size());
  }
  if (qp.type != QpType::ud && message.kind() == InboundMessage::Kind::send && !message.recv_in_use()) {
    return "rx.message.recv_in_use is false in the middle of a SEND";
  }
  const std::vector<Resource>& resources = qp.cold->replay.resources();
  for (const Resource& resource : resources) {
    const uint32_t packets = resource.atomic ? 1 : qp.packets_of(resource.length);
    if (resource.length > kMaxMessage || (resource.packets != 0 && resource.packets != packets)) {
      return fmt::format("replay.resources has {} packets for {} bytes", resource.packets, resource.length);
    }
    // An XRC target's are of the queues' domains.
    if (resource.packets != 0 && resource.pd != qp.pd && qp.type != QpType::xrc_target) {
      return fmt::format("replay.resources has memory of domain {}; the QP's is {}", resource.pd, qp.pd);
    }
  }
  const bool wrong = qp.cold->replay.find_job([&](const ResponseJob& job) {
    if (job.resource == ResponseJob::kVoid) return false;
    return job.resource >= resources.size() || job.next >= job.end || job.end > resources[job.resource].packets;
  });
  if (wrong) return "replay.jobs has packets that its resource does not have";
  if (!qp.cold->replay.has_room_for_originals()) return "replay.waiting leaves no room for the responses to come";
  return kAgrees;
}

// The first field in use of those that UC and UD QPs never use; nullptr: none.
const char* rc_field_in_use(const Qp& qp) {
  if (qp.selective) return "selective";
  if (qp.cold->timer_pending) return "timer_pending";
  if (qp.tx.control_frames != 0) return "tx.control_frames";
  if (qp.tx.lost.any()) return "tx.lost";
  if (qp.rx.message.later_wait()) return "rx.message.later_wait";
  if (qp.responses.has_jobs()) return "replay.jobs";
  return qp.responses.reply_pending() ? "responses.reply_pending" : nullptr;
}

Contradiction check_state(const Qp& qp) {
  const bool rc = is_reliable(qp.type);
  if (rc && qp.state == QpState::sqe) return "state is SQE, but RC has no SQE state";
  const bool paced = qp.paced && qp.cold->congestion == nullptr && qp.cold->attr.rate_limit == 0;
  if (paced) return "paced is true without congestion control or rate_limit";
  if (qp.cold->timer_pending && qp.cold->wheel_deadline == kNever)
    return "timer_pending is true without wheel_deadline";
  if (const char* field = rc_field_in_use(qp); !rc && field != nullptr) {
    return fmt::format("{} is set, but only an RC QP uses it", field);
  }
  if (rc && qp.rx.message.later_wait() != !qp.cold->recovery->requests_ahead.empty()) {
    return "rx.message.later_wait does not tell whether there are frames";
  }
  // Sending needs a route. Datagrams bring their own.
  const bool idle = qp.state == QpState::reset || qp.state == QpState::init || qp.state == QpState::error;
  const bool answers = qp.responses.has_jobs() || qp.responses.reply_pending() || qp.tx.control_frames != 0;
  if (has_peer(qp.type) && qp.route == nullptr && (!idle || answers)) return "route is missing";
  return kAgrees;
}

// apply_attributes() takes these from the port.
Contradiction check_port(const EngineConfig& config, const Qp& qp) {
  const bool set = qp.state != QpState::reset;
  if (set && qp.mtu() > mtu_bytes(config.port_mtu)) {
    return fmt::format("mtu_shift gives packets of {} bytes; the port has {}", qp.mtu(), mtu_bytes(config.port_mtu));
  }
  if (set && qp.pkey != config.pkey) return fmt::format("pkey is {:#x}; the port has {:#x}", qp.pkey, config.pkey);
  return kAgrees;
}

}  // namespace

std::optional<std::string> find_contradiction(const EngineConfig& config, const Qp& qp) {
  if (Contradiction wrong = check_port(config, qp)) return wrong;
  if (Contradiction wrong = check_requests(qp)) return wrong;
  // After an error nothing is sent or acknowledged any more.
  if (is_reliable(qp.type) && qp.state != QpState::error) {
    if (Contradiction wrong = check_psns(qp)) return wrong;
  }
  if (Contradiction wrong = check_responder(qp)) return wrong;
  return check_state(qp);
}

bool is_plausible(const EngineConfig& config, const wire::RouteTemplate& route) {
  const auto known = wire::route_of(route);
  return known && known->src_mac == config.mac && (known->vlan.value_or(0) & 0xfff) == config.vlan;
}

}  // namespace uroce::transport
