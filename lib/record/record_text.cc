#include "record/record_text.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include <fmt/format.h>

#include "record/checks.h"
#include "record/script_names.h"
#include "settings/names.h"
#include "transport/datagram/multicast.h"
#include "transport/qp/state.h"

namespace uroce::record {
namespace {

using Out = std::back_insert_iterator<std::string>;

constexpr std::size_t kMostHex = 32;

std::string ip_text(const Gid& gid) {
  const auto& b = gid.bytes;
  if (gid.is_ipv4()) return fmt::format("{}.{}.{}.{}", b[12], b[13], b[14], b[15]);
  std::string text;
  for (std::size_t i = 0; i < b.size(); i += 2) text += fmt::format("{}{:x}", i == 0 ? "" : ":", b[i] << 8 | b[i + 1]);
  return text;
}

std::string hex(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte b : bytes.first(std::min(bytes.size(), kMostHex))) {
    text += fmt::format("{:02x}", static_cast<unsigned>(b));
  }
  return bytes.size() > kMostHex ? text + fmt::format("... ({} bytes)", bytes.size()) : text;
}

std::string_view name_of(memory::AccessResult result) {
  static constexpr std::string_view kNames[] = {"ok", "bad_key", "wrong_domain", "not_permitted", "out_of_bounds"};
  const auto at = static_cast<std::size_t>(result);
  return at < std::size(kNames) ? kNames[at] : "?";
}

std::string engine_text(const Record& record) {
  Parts parts(record);
  const auto engine = read<EngineRecord>(record, parts);
  std::string text =
      fmt::format("index={} max_qps={} window={} port_mtu={} retransmission={} congestion={} parking={} vlan={}",
                  engine.index, engine.max_qps, engine.window_packets, mtu_bytes(engine.port_mtu),
                  settings::name_in(settings::kRetransmissionNames, engine.settings.retransmission),
                  settings::name_in(settings::kCongestionNames, engine.settings.congestion.algorithm),
                  engine.settings.parking_frames, engine.vlan);
  for (uint32_t i = 0; i < engine.gids; ++i) text += fmt::format(" gid={}", ip_text(parts.get<Gid>()));
  return text;
}

void put_sges(Out out, std::span<const std::byte> bytes, std::size_t count) {
  for (std::size_t i = 0; i < std::min<std::size_t>(count, bytes.size() / sizeof(Sge)); ++i) {
    Sge sge;
    std::memcpy(&sge, bytes.data() + i * sizeof sge, sizeof sge);
    fmt::format_to(out, " sge={:#x}:{}/{:#x}", sge.addr, sge.length, sge.lkey);
  }
}

void put_send(Out out, std::span<const std::byte> slot) {
  queues::SendWqe wqe{};
  if (slot.size() < sizeof wqe) return;
  std::memcpy(&wqe, slot.data(), sizeof wqe);
  const auto opcode = static_cast<WrOpcode>(wqe.opcode);
  fmt::format_to(out, "; {} wr={}", names::name_of(names::kWrOpcodeNames, opcode), wqe.wr_id);
  const auto flags = SendFlags::from_bits(wqe.flags);
  if (!flags.has(SendFlag::signaled)) fmt::format_to(out, " unsignaled");
  if (flags.has(SendFlag::solicited)) fmt::format_to(out, " solicited");
  if (flags.has(SendFlag::fence)) fmt::format_to(out, " fence");
  if (wqe.remote_addr != 0 || wqe.rkey != 0) fmt::format_to(out, " va={:#x} rkey={:#x}", wqe.remote_addr, wqe.rkey);
  if (wqe.imm_or_key != 0) fmt::format_to(out, " imm={:#x}", wqe.imm_or_key);
  if (flags.has(SendFlag::inline_data)) {
    fmt::format_to(out, " inline={}", wqe.inline_length);
  } else {
    put_sges(out, slot.subspan(sizeof wqe), wqe.num_sge);
  }
}

void put_recv(Out out, std::span<const std::byte> slot) {
  queues::RecvWqe wqe{};
  if (slot.size() < sizeof wqe) return;
  std::memcpy(&wqe, slot.data(), sizeof wqe);
  fmt::format_to(out, "; wr={}", wqe.wr_id);
  put_sges(out, slot.subspan(sizeof wqe), wqe.num_sge);
}

Described slots_text(const Record& record) {
  Parts parts(record);
  const auto slots = parts.get<SlotsRecord>();
  const bool srq = record.kind == Kind::srq_recvs;
  Described is{.text = fmt::format("{}={:#x} producer={}", srq ? "srq" : "qp", slots.object, slots.producer)};
  if (!srq) is.qpn = slots.object;
  const Out out = std::back_inserter(is.text);
  while (!parts.empty()) {
    const auto slot = parts.bytes(parts.get<uint16_t>());
    record.kind == Kind::sends ? put_send(out, slot) : put_recv(out, slot);
  }
  return is;
}

Described qp_text(const Record& record) {
  const auto qp = read<QpRecord>(record);
  Described is{.text = fmt::format("qp={:#x} {} pd={} send_wr={} recv_wr={} send_sge={} recv_sge={} inline={}", qp.qpn,
                                   transport::name(qp.type), qp.pd, qp.sq.entries, qp.rq.entries, qp.cap.max_send_sge,
                                   qp.cap.max_recv_sge, qp.cap.max_inline_data),
               .qpn = qp.qpn};
  if (qp.has_send_cq) is.text += fmt::format(" send_cq={}", qp.send_cq);
  if (qp.has_recv_cq) is.text += fmt::format(" recv_cq={}", qp.recv_cq);
  if (qp.has_srq) is.text += fmt::format(" srq={}", qp.srq);
  if (qp.xrc_domain != 0) is.text += fmt::format(" xrc_domain={}", qp.xrc_domain);
  return is;
}

Described modify_text(const Record& record) {
  const auto modify = read<ModifyRecord>(record);
  const QpAttr& attr = modify.attr;
  Described is{.text = fmt::format("qp={:#x}", modify.qpn), .qpn = modify.qpn};
  const Out out = std::back_inserter(is.text);
  const auto put = [&](QpAttrBit bit, auto value) {
    if (modify.mask.has(bit)) fmt::format_to(out, " {}={}", transport::name(bit), value);
  };
  put(QpAttrBit::state, transport::name(attr.state));
  put(QpAttrBit::dest_qpn, fmt::format("{:#x}", attr.dest_qpn));
  put(QpAttrBit::sq_psn, attr.sq_psn);
  put(QpAttrBit::rq_psn, attr.rq_psn);
  const bool mtu = attr.path_mtu >= Mtu::mtu256 && attr.path_mtu <= Mtu::mtu4096;
  put(QpAttrBit::path_mtu, mtu ? mtu_bytes(attr.path_mtu) : static_cast<uint32_t>(attr.path_mtu));
  put(QpAttrBit::timeout, attr.timeout);
  put(QpAttrBit::retry_cnt, attr.retry_cnt);
  put(QpAttrBit::rnr_retry, attr.rnr_retry);
  put(QpAttrBit::min_rnr_timer, attr.min_rnr_timer);
  put(QpAttrBit::max_rd_atomic, attr.max_rd_atomic);
  put(QpAttrBit::max_dest_rd_atomic, attr.max_dest_rd_atomic);
  put(QpAttrBit::access_flags, fmt::format("{:#x}", attr.access.bits()));
  put(QpAttrBit::rate_limit, attr.rate_limit);
  if (modify.has_route) fmt::format_to(out, " to={}", ip_text(modify.route.dgid));
  if (modify.loopback) fmt::format_to(out, " loopback");
  return is;
}

Described completion_text(const Record& record) {
  const auto was = Parts(record).get<CompletionRecord>();
  const queues::Cqe& cqe = was.cqe;
  return {.text = fmt::format("qp={:#x} cq={} wr={} status={} op={} len={} imm_or_key={:#x}", cqe.qpn, was.cq,
                              cqe.wr_id, status_name(static_cast<WcStatus>(cqe.status)),
                              names::name_of(names::kWcOpcodeNames, static_cast<WcOpcode>(cqe.opcode)), cqe.byte_len,
                              cqe.imm_or_key),
          .qpn = cqe.qpn};
}

Described event_text(const Record& record) {
  const auto event = Parts(record).get<EventRecord>();
  const auto type = static_cast<AsyncEventType>(event.type);
  const bool of_qp = type != AsyncEventType::cq_error && type != AsyncEventType::srq_error &&
                     type != AsyncEventType::srq_limit_reached;
  Described is{.text = fmt::format("{} of {:#x}", names::name_of(names::kEventNames, type), event.object)};
  if (of_qp) is.qpn = event.object;
  return is;
}

std::string handle_text(const Record& record) {
  const auto handle = read<HandleRecord>(record);
  if (!handle.found) return fmt::format("ah={} pd={} is not there", handle.id, handle.pd);
  return fmt::format("ah={} pd={} to={}", handle.id, handle.pd, ip_text(handle.dgid));
}

std::string flows_text(const Record& record) {
  std::string text;
  for (Parts parts(record); !parts.empty();) {
    const auto flow = read<FlowRecord>(record, parts);
    parts.bytes(flow.qpns * sizeof(uint32_t));
    text += fmt::format(" {}:{:#x}", flow.id, flow.qpn);
  }
  return text.empty() ? "none" : text.substr(1);
}

std::string gids_text(const Record& record) {
  Parts parts(record);
  std::string text;
  for (read<Nanos>(record, parts); !parts.empty();) text += fmt::format(" {}", ip_text(parts.get<Gid>()));
  return text.empty() ? "none" : text.substr(1);
}

std::string owner_text(const Record& record) {
  const auto ring = read<RingOwnerRecord>(record);
  if (ring.owner.user == transport::Owner::kNobody) return fmt::format("ring={}", ring.ring);
  return fmt::format("ring={} uid={} weight={}", ring.ring, ring.owner.user, ring.owner.weight);
}

}  // namespace

Described describe(const Record& record) {
  Parts parts(record);
  switch (record.kind) {
    case Kind::engine: return {.text = engine_text(record)};
    case Kind::bad_icrc: return {.text = fmt::format("frame={}", record.small)};
    case Kind::doorbell: {
      const auto bell = read<DoorbellRecord>(record);
      return {.text = fmt::format("qp={:#x} ring={} client={}", bell.token, bell.ring, bell.client), .qpn = bell.token};
    }
    case Kind::sends:
    case Kind::recvs:
    case Kind::srq_recvs: return slots_text(record);
    case Kind::srq_limit: {
      const auto srq = parts.get<uint32_t>();
      return {.text = fmt::format("srq={:#x} limit={}", srq, parts.get<uint32_t>())};
    }
    case Kind::room: return {.text = fmt::format("{}", parts.get<uint64_t>())};
    case Kind::region: {
      if (record.small == kRegionsGone) return {.text = "all are looked up anew"};
      const auto region = read<RegionRecord>(record);
      return {.text = fmt::format("key={:#x} pd={} va={:#x} length={} access={:#x}", region.key, region.pd,
                                  region.address, region.length, region.access)};
    }
    case Kind::check: {
      const auto check = read<CheckRecord>(record);
      return {.text = fmt::format("look-up {}: {}{}{}", check.after, name_of(check.result), check.null ? " null" : "",
                                  check.misaligned ? " misaligned" : "")};
    }
    case Kind::key: return {.text = fmt::format("{}", record.small)};
    case Kind::taken: return {.text = hex(record.bytes)};
    case Kind::handle: return {.text = handle_text(record)};
    case Kind::completion: return completion_text(record);
    case Kind::event: return event_text(record);
    case Kind::key_qp:
    case Kind::attach: return qp_text(record);
    case Kind::modify: return modify_text(record);
    case Kind::detach:
    case Kind::adopt:
    case Kind::adopt_unknown: {
      const auto qp = read<ObjectRecord>(record, parts);
      const std::string snapshot = record.kind == Kind::adopt ? fmt::format(" {} bytes", parts.rest().size()) : "";
      return {.text = fmt::format("qp={:#x}{}", qp.object, snapshot), .qpn = qp.object};
    }
    case Kind::attach_ring: return {.text = owner_text(record)};
    case Kind::detach_ring: return {.text = fmt::format("ring={}", read<ObjectRecord>(record).object)};
    case Kind::key_srq:
    case Kind::srq: {
      const auto srq = read<SrqRecord>(record);
      return {.text = fmt::format("srq={:#x} entries={} max_sge={} limit={}", srq.id, srq.ring.entries, srq.max_sge,
                                  srq.limit)};
    }
    case Kind::attach_srq:
    case Kind::detach_srq: return {.text = fmt::format("srq={:#x}", read<ObjectRecord>(record).object)};
    case Kind::gids: return {.text = gids_text(record)};
    case Kind::whole_writes: return {.text = record.small != 0 ? "on" : "off"};
    case Kind::redirect: return {.text = fmt::format("to={}", ip_text(read<RedirectRecord>(record).to))};
    case Kind::groups:
      return {.text = fmt::format("{} members", record.bytes.size() / sizeof(transport::MulticastGroups::Member))};
    case Kind::flows: return {.text = flows_text(record)};
    default: return {};
  }
}

void Peers::note(const Record& record) {
  if (record.kind != Kind::modify) return;
  const auto modify = read<ModifyRecord>(record);
  if (modify.mask.has(QpAttrBit::dest_qpn)) peers_[modify.qpn] = modify.attr.dest_qpn;
}

bool Peers::concerns(uint32_t qpn, const wire::Packet& packet, bool in) const {
  if (in) return packet.bth.dest_qpn == qpn;
  if (packet.op().flags.has(wire::Op::deth)) return packet.deth.src_qpn == qpn;
  const auto peer = peers_.find(qpn);
  return peer != peers_.end() && peer->second == packet.bth.dest_qpn;
}

}  // namespace uroce::record
