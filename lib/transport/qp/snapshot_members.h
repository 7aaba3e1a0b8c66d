// The members of the transport's open structures, each named once for a snapshot.
//
// Every function binds all members of its structure, so that one which is added does not compile until it is named
// here. Members that are bound and not written are pointers, come from the QpSpec, or belong to the engine that the QP
// is on.
#pragma once

#include "transport/core/snapshot_archive.h"
#include "transport/qp/qp.h"

namespace uroce::transport {

/// The version of snapshots that came with changes of paths.
inline constexpr uint32_t kSnapshotWithPaths = 12;

/// A member that no reference can name: a bit.
template <class Archive, class Value, class Set>
void persist_value(Archive& archive, const char* name, Value value, Set&& set, auto... range) {
  archive(name, value, range...);
  set(value);
}

/// The ring is in shared memory. Only how far the engine has come is written.
template <class Archive>
void persist(Archive& archive, queues::RingConsumer& ring) {
  uint32_t next = ring.next();
  archive("next", next);
  ring.advance(next - ring.next());
}

template <class Archive>
void persist(Archive& archive, AddressVector& vector) {
  auto& [dgid, sgid_index, hop_limit, traffic_class, flow_label] = vector;
  archive("dgid", dgid.bytes);
  archive("sgid_index", sgid_index);
  archive("hop_limit", hop_limit);
  archive("traffic_class", traffic_class);
  archive("flow_label", flow_label, 0, 0xfffff);
}

template <class Archive>
void persist(Archive& archive, QpAttr& attr) {
  auto& [state, cur_state, path_mtu, qkey, rq_psn, sq_psn, dest_qpn, access, cap, av, pkey_index, en_sqd_async_notify,
         max_rd_atomic, max_dest_rd_atomic, min_rnr_timer, port, timeout, retry_cnt, rnr_retry, rate_limit] = attr;
  archive("state", state, QpState::reset, QpState::error);
  archive("cur_state", cur_state, QpState::reset, QpState::error);
  archive("path_mtu", path_mtu, Mtu::mtu256, Mtu::mtu4096);
  archive("qkey", qkey);
  archive("rq_psn", rq_psn, 0, Psn::kMask);
  archive("sq_psn", sq_psn, 0, Psn::kMask);
  archive("dest_qpn", dest_qpn, 0, Psn::kMask);
  archive("access", access);
  archive("av", av);
  archive("pkey_index", pkey_index);
  archive("en_sqd_async_notify", en_sqd_async_notify);
  archive("max_rd_atomic", max_rd_atomic, 0, kMaxRdAtomic);
  archive("max_dest_rd_atomic", max_dest_rd_atomic, 0, kMaxRdAtomic);
  archive("min_rnr_timer", min_rnr_timer, 0, 31);
  archive("port", port);
  archive("timeout", timeout, 0, 31);
  archive("retry_cnt", retry_cnt, 0, 7);
  archive("rnr_retry", rnr_retry, 0, 7);
  archive("rate_limit", rate_limit);
}

template <class Archive>
void persist(Archive& archive, wire::RouteTemplate& route) {
  auto& [bytes, length, l3_offset, ip_version, ipv4_partial_sum] = route;
  archive("bytes", bytes);
  archive("length", length);
  archive("l3_offset", l3_offset);
  archive("ip_version", ip_version);
  archive("ipv4_partial_sum", ipv4_partial_sum);
}

template <class Archive>
void persist(Archive& archive, Sge& sge) {
  auto& [addr, length, lkey] = sge;
  archive("addr", addr);
  archive("length", length);
  archive("lkey", lkey);
}

/// Its entries or inline bytes follow it.
template <class Archive>
void persist(Archive& archive, SendSlot& slot) {
  auto& [wr_id, flags, started, asked_again, as_onlies, status, opcode, num_sge, inline_length, imm_or_key, rkey,
         remote_addr, length, packets, first_psn, ssn] = slot;
  auto& [compare_add, swap] = slot.operands();
  archive("wr_id", wr_id);
  archive("remote_addr", remote_addr);
  archive("compare_add", compare_add);
  archive("swap", swap);
  archive("rkey", rkey);
  archive("imm_or_key", imm_or_key);
  archive("length", length, 0, kMaxMessage);
  archive("packets", packets);
  archive("first_psn", first_psn);
  archive("ssn", ssn);
  archive("opcode", opcode, WrOpcode{0}, WrOpcode{255});  // Found wrong, it is as the application wrote it.
  archive("flags", flags);
  archive("num_sge", num_sge);
  archive("status", status, WcStatus{0}, WcStatus{255});
  archive("inline_length", inline_length);
  archive("started", started);
  persist_value(archive, "asked_again", bool{asked_again}, [&](bool value) { slot.asked_again = value; });
  if (archive.version() < kSnapshotWithOnlies) return;
  persist_value(archive, "as_onlies", bool{as_onlies}, [&](bool value) { slot.as_onlies = value; });
}

template <class Archive>
void persist(Archive& archive, SackEcho& echo) {
  auto& [psn, tag, duplicate, at] = echo;
  archive("psn", psn);
  archive("tag", tag, 0, 127);
  archive("duplicate", duplicate);
  archive.moment("at", at);
}

template <class Archive>
void persist(Archive& archive, PortChoice& port) {
  auto& [peers, wish, peer_wish, left_at] = port;
  archive("peers", peers);
  archive("wish", wish);
  archive("peer_wish", peer_wish);
  archive.moment("left_at", left_at);
}

/// The frames in the reorder buffers follow elsewhere: their bytes are the engine's.
template <class Archive>
void persist(Archive& archive, Recovery& recovery) {
  auto& [probe, ack_asked_at, heeded_rtt, open_window, short_of_memory, echo, sack_due, requests_ahead, responses_ahead,
         loss, responses, discovery, port] = recovery;
  archive("loss", loss);
  archive("responses", responses);
  archive("probe", probe);
  archive.moment("ack_asked_at", ack_asked_at);
  archive("short_of_memory", short_of_memory);
  archive("heeded_rtt", heeded_rtt, Nanos(0), kNever);
  archive("open_window", open_window, 0, 1u << 24);
  archive("echo", echo);
  archive("sack_due", sack_due);
  archive("discovery", discovery);
  if (archive.version() >= kSnapshotWithPaths) archive("port", port);
}

template <class Archive>
void persist(Archive& archive, Qp::Requester& tx) {
  auto& [sq, cursor, next_in_run_queue, previous_in_run_queue, recovery, owner, lost, control_frames, rnr_waiting,
         rd_atomic, since_ack_request, max_sge, slots, doorbell, deadline, credits, una, next, acked, sent, window,
         oldest, slot_stride, max_inline, retries] = tx;
  archive("sq", sq);
  archive("oldest", oldest);
  archive("cursor", cursor);
  archive("una", una);
  archive("acked", acked);
  archive("next", next);
  archive("sent", sent);
  archive("window", window, 0, PsnSet::kSize);
  archive("credits", credits);
  archive("rd_atomic", rd_atomic);
  archive("retries", retries);
  archive("rnr_waiting", rnr_waiting);
  archive("lost", lost);
  archive("since_ack_request", since_ack_request);
  archive("control_frames", control_frames, 0, ControlFrame::kHello | ControlFrame::kCnp);
  archive.deadline("deadline", deadline);
}

template <class Archive>
void persist(Archive& archive, Qp::Responder& rx) {
  auto& [rq, expected, msn, granted, message, recv_cq] = rx;
  if (rq.entries() != 0) archive("rq", rq);
  archive("expected", expected);
  archive("msn", msn, 0, Psn::kMask);
  archive("message", message);
  if (archive.version() >= kSnapshotWithGrantedCredits) archive("granted", granted);
}

template <class Archive>
void persist(Archive& archive, Qp& qp) {
  auto& [qpn, dest_qpn, pd, type, state, mtu_shift, max_rd_atomic, pkey, udp_source, timeout, retry_cnt, rnr_retry,
         min_rnr_timer, ecn, access, loopback, signal_all, paced, selective, discovers, flushing, rung, on_run_queue,
         seal, send_cq, responses, cold, route, tx, rx] = qp;
  archive("dest_qpn", dest_qpn, 0, Psn::kMask);
  archive("state", state, QpState::reset, QpState::error);
  archive("mtu_shift", mtu_shift, 8, 12);
  archive("max_rd_atomic", max_rd_atomic, 0, kMaxRdAtomic);
  archive("pkey", pkey);
  archive("udp_source", udp_source);
  archive("timeout", timeout, 0, 31);
  archive("retry_cnt", retry_cnt, 0, 7);
  persist_value(archive, "rnr_retry", uint8_t{rnr_retry}, [&](uint8_t count) { qp.rnr_retry = count & 7; }, 0, 7);
  persist_value(
      archive, "min_rnr_timer", uint8_t{min_rnr_timer}, [&](uint8_t code) { qp.min_rnr_timer = code & 31; }, 0, 31);
  archive("access", access);
  persist_value(archive, "loopback", bool{loopback}, [&](bool on) { qp.loopback = on; });
  persist_value(archive, "paced", bool{paced}, [&](bool on) { qp.paced = on; });
  persist_value(archive, "selective", bool{selective}, [&](bool on) { qp.selective = on; });
  persist_value(archive, "flushing", bool{flushing}, [&](bool on) { qp.flushing = on; });
  archive("ecn", ecn, 0, 3);
  archive("timer_pending", cold->timer_pending);
  archive("tx", tx);
  archive.deadline("wheel_deadline", qp.cold->wheel_deadline);
  archive("rx", rx);
  archive("responses", responses);
}

/// The members that are neither of variable length nor optional.
template <class Archive>
void persist(Archive& archive, QpCold& cold) {
  auto& [spec, attr, srq, srqn, next_holder, previous_holder, held_place, send_slots, send_slot_stride, recv_wr_id,
         recv_sges, replay, route, recovery, algorithm, congestion, pacer, cnp, path_changes, key_brake,
         communication_established, sq_drained_reported, flush_until, on_flush_queue, next_in_flush_queue,
         previous_in_flush_queue, wheel_deadline, user, timer_pending, owner, ack_timer, hello_timer, pacing_timer] =
      cold;
  archive("attr", attr);
  archive("recv_wr_id", recv_wr_id);
  archive.elements("recv_sges", recv_sges);
  archive("replay", replay);
  archive("pacer", pacer);
  archive("cnp", cnp);
  if (archive.version() >= kSnapshotWithPaths) archive("path_changes", path_changes);
  archive("key_brake", key_brake);
  archive("communication_established", communication_established);
  archive("sq_drained_reported", sq_drained_reported);
  archive("flush_until", flush_until);
}

}  // namespace uroce::transport
