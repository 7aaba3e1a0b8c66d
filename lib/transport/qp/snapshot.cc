#include "transport/qp/snapshot.h"

#include <bit>
#include <cerrno>

#include "settings/names.h"
#include "transport/congestion/dcqcn.h"
#include "transport/congestion/swift.h"
#include "transport/qp/seal.h"
#include "transport/qp/send_window.h"
#include "transport/qp/snapshot_check.h"
#include "transport/qp/snapshot_members.h"
#include "transport/qp/xrc.h"
#include "wire/crc/kernel.h"
#include "wire/packet.h"

namespace uroce::transport {
namespace {

// --- The bytes around it: magic 4, version 4, length of the whole 4, CRC-32 of what follows 4 --------------------

constexpr uint32_t kMagic = 0x53505155;  // "UQPS"
constexpr std::size_t kLengthAt = 8;
constexpr std::size_t kChecksumAt = 12;

// Against damage, not against an author. No single wrong byte passes.
uint32_t checksum(std::span<const std::byte> snapshot) {
  const uint32_t version = load_le32(snapshot.data() + 4);
  const std::span<const std::byte> fields = snapshot.subspan(kSnapshotHeaderBytes);
  return wire::crc::active().update(~(version > 8 ? version : 0), fields.data(), fields.size());
}

Result<void> check_envelope(std::span<const std::byte> snapshot) {
  if (snapshot.size() < kSnapshotHeaderBytes || load_le32(snapshot.data()) != kMagic) {
    return fail(EINVAL,
                fmt::format("magic is missing: {} bytes are no snapshot; give all that write_snapshot() returned",
                            snapshot.size()));
  }
  const uint32_t version = load_le32(snapshot.data() + 4);
  if (version < kOldestSnapshotVersion || version > kSnapshotVersion) {
    return fail(EINVAL,
                fmt::format("version is {}; this release reads {} to {}: move the QP with a release that writes "
                            "one of them",
                            version, kOldestSnapshotVersion, kSnapshotVersion));
  }
  if (const uint32_t length = load_le32(snapshot.data() + kLengthAt); length != snapshot.size()) {
    return fail(EINVAL, fmt::format("length is {}, but {} bytes are there; give all that write_snapshot() returned",
                                    length, snapshot.size()));
  }
  if (load_le32(snapshot.data() + kChecksumAt) != checksum(snapshot)) {
    return fail(EINVAL, "checksum does not match: the snapshot was damaged; write another");
  }
  return {};
}

// --- The parts whose form depends on the QP ----------------------------------------------------------------------

// The version that came with targets of XRC.
constexpr uint32_t kWithTargets = 9;

template <class Archive>
bool borrows(const Archive& archive, const Qp& qp) {
  return qp.type == QpType::xrc_target && archive.version() >= kWithTargets;
}

template <class Archive>
void persist_identity(Archive& archive, const Qp& qp) {
  const QpSpec& spec = qp.cold->spec;
  archive.same("qpn", qp.qpn);
  archive.same("type", qp.type);
  // A target has a domain of the engine's own, which may be another one there, or borrows one.
  if (!borrows(archive, qp)) archive.same("pd", qp.pd);
  archive.same("signal_all", bool{qp.signal_all});
  archive.same("sq_entries", spec.sq.entries);
  archive.same("rq_entries", spec.rq.entries);
  archive.same("shared_receive_queue", spec.srq != nullptr);
  archive.same("max_send_sge", spec.cap.max_send_sge);
  archive.same("max_recv_sge", static_cast<uint32_t>(qp.cold->recv_sges.size()));
  archive.same("max_inline_data", spec.cap.max_inline_data);
  // The form of what follows depends on the power of two alone.
  archive.same("window_packets", std::bit_ceil(spec.window_packets));
}

template <class Archive>
void persist_route(Archive& archive, const Context& ctx, Qp& qp) {
  bool any = qp.route != nullptr;
  archive("has_route", any);
  if (!any) return;
  wire::RouteTemplate route = qp.route != nullptr ? *qp.route : wire::RouteTemplate{};
  archive("route", route);
  if constexpr (Archive::kReads) {
    if (!archive.good()) return;
    if (!is_plausible(ctx.config, route)) return archive.refuse("route has headers that this port does not send");
    qp.cold->route = std::make_shared<const wire::RouteTemplate>(route);
    qp.route = qp.cold->route.get();
  }
}

// The shared receive queue of a message in progress. The queue may have gone with its program: then the message ends as
// it does where the queue goes.
template <class Archive>
void persist_borrowed(Archive& archive, const Context& ctx, Qp& qp) {
  if (!borrows(archive, qp)) return;
  QpCold& cold = *qp.cold;
  uint32_t place = cold.held_place;
  archive("srqn", cold.srqn);
  archive("held_place", place);
  if constexpr (Archive::kReads) {
    if (!archive.good()) return;
    // Domain 0 has no memory.
    for (Resource& resource : cold.replay.resources()) {
      if (resource.packets != 0 && !ctx.xrc_srqs.have(cold.spec.xrc_domain, resource.pd)) resource.pd = 0;
    }
    if (!qp.rx.message.recv_in_use()) return;
    Srq* srq = ctx.xrc_srqs.find(cold.srqn);
    if (srq == nullptr || srq->xrc_domain != cold.spec.xrc_domain) {
      qp.rx.message.drop_recv();
      qp.rx.message.end();
    } else if (!resume_srq(qp, *srq, place)) {
      archive.refuse(fmt::format("held_place {} is another queue pair's, or is not there", place));
    }
  }
}

// The algorithm goes on where it was. Its parameters are those of the engine.
template <class Archive>
void persist_congestion(Archive& archive, const Context& ctx, Qp& qp) {
  QpCold& cold = *qp.cold;
  CongestionAlgorithm algorithm = cold.algorithm;
  archive("algorithm", algorithm, CongestionAlgorithm::device_default, CongestionAlgorithm::swift);
  if constexpr (Archive::kReads) {
    if (!archive.good() || algorithm <= CongestionAlgorithm::none) return;
    const bool paced = qp.paced;
    const uint8_t ecn = qp.ecn;
    choose_congestion_control(ctx, qp);
    qp.paced = paced;
    qp.ecn = ecn;
    if (cold.algorithm != algorithm) {
      return archive.refuse(
          fmt::format("algorithm is {} in the snapshot and {} here: give the device the congestion "
                      "control that the QP began with",
                      settings::name(algorithm), settings::name(cold.algorithm)));
    }
  }
  if (algorithm == CongestionAlgorithm::dcqcn) archive("dcqcn", static_cast<Dcqcn&>(*cold.congestion));
  if (algorithm == CongestionAlgorithm::swift) archive("swift", static_cast<Swift&>(*cold.congestion));
  if (cold.congestion == nullptr || archive.version() < kSnapshotWithPaths) return;
  archive("congested_rounds", cold.congestion->congested_rounds());
}

// Of work requests that were fetched and have not completed.
template <class Archive>
void persist_slots(Archive& archive, Qp& qp) {
  const auto& tx = qp.tx;
  if constexpr (Archive::kReads) {
    const uint32_t fetched = tx.sq.next() - tx.oldest;
    if (fetched > tx.sq.entries()) {
      return archive.refuse(
          fmt::format("tx.oldest is {} before tx.sq.next; the ring has {} entries", fetched, tx.sq.entries()));
    }
  }
  for (uint32_t index = tx.oldest; index != tx.sq.next(); ++index) {
    SendSlot& slot = qp.slot(index);
    // A plain request leaves there what an earlier one had.
    if (!Archive::kReads && qp.type == QpType::rc && !slot.has_operands() && !slot.is_local()) slot.operands() = {};
    archive("slot", slot);
    if constexpr (Archive::kReads) {
      if (slot.num_sge > tx.max_sge) archive.refuse(fmt::format("slot.num_sge is {} of {}", slot.num_sge, tx.max_sge));
      if (slot.as_onlies && !slot.is_plain_write()) archive.refuse("slot.as_onlies is not of a WRITE");
      if (slot.inline_length > tx.max_inline || (slot.inline_length != 0 && slot.num_sge != 0)) {
        archive.refuse(fmt::format("slot.inline_length is {} of {}", slot.inline_length, tx.max_inline));
      }
      if (!archive.good()) {
        slot = SendSlot{};
        return;
      }
    }
    archive.elements("slot.sges", std::span(slot.sges(), slot.num_sge));
    archive.elements("slot.inline_data", std::span(slot.inline_data(), slot.inline_length));
  }
}

// --- Frames in reorder buffers -------------------------------------------------------------------------------------

// `write(frame)` writes the bytes of each.
template <class Write>
void write_each_frame(SnapshotWriter& archive, const FramePool& pool, const ReorderBuffer& buffer, Write&& write) {
  uint32_t count = buffer.count();
  archive("frames", count);
  buffer.for_each([&](Psn psn, uint16_t number) {
    const std::span<const std::byte> frame = pool.frame(number);
    auto length = static_cast<uint16_t>(frame.size());
    archive("psn", psn);
    archive("length", length);
    write(frame);
  });
}

void write_frames(SnapshotWriter& archive, const FramePool& pool, const ReorderBuffer& buffer) {
  write_each_frame(archive, pool, buffer, [&](std::span<const std::byte> frame) { archive.bytes("frame", frame); });
}

// A replay has zeros for payload.
void write_headers(SnapshotWriter& archive, const FramePool& pool, const ReorderBuffer& buffer) {
  write_each_frame(archive, pool, buffer, [&](std::span<const std::byte> frame) {
    const auto packet = wire::parse(frame, wire::Icrc::skip);
    auto headers = static_cast<uint16_t>(packet ? packet->payload.data() - packet->frame : frame.size());
    archive("headers", headers);
    archive.bytes("frame", frame.first(headers));
  });
}

// A buffered frame was admitted and was of the right kind, and its ICRC is still there.
bool is_of(const Qp& qp, const wire::Packet& packet, Psn psn, bool requests) {
  const auto transport = is_xrc(qp.type) ? wire::Transport::xrc : wire::Transport::rc;
  return packet.bth.psn == psn && packet.bth.dest_qpn == qp.qpn && wire::transport_of(packet.bth.opcode) == transport &&
         packet.op().flags.has(wire::Op::request) == requests;
}

// Returns the error's code, 0 for none.
int read_frames(SnapshotReader& archive, Context& ctx, const Qp& qp, ReorderBuffer& buffer, Psn expected,
                bool requests) {
  uint32_t count = 0;
  archive("frames", count, 0, buffer.capacity() + 1);
  for (uint32_t i = 0; i < count && archive.good(); ++i) {
    Psn psn;
    uint16_t length = 0;
    archive("psn", psn);
    archive("length", length, 0, FramePool::kFrameBytes);
    const std::span<const std::byte> frame = archive.bytes(length);
    if (!archive.good()) break;
    const int32_t ahead = distance(psn, expected);
    const auto packet = wire::parse(frame, ctx.config.check_icrc ? wire::Icrc::check : wire::Icrc::skip);
    const bool reached = ahead >= 0 && ahead <= static_cast<int32_t>(buffer.capacity());
    if (!reached || !packet || !is_of(qp, *packet, psn, requests)) {
      archive.refuse(fmt::format("frame at PSN {} is not a buffered frame of this QP", psn.value()));
    } else if (ctx.frames.full()) {
      archive.refuse(fmt::format("frame at PSN {} finds no room in the engine's {} frames; raise parking_frames",
                                 psn.value(), ctx.config.settings.parking_frames));
      return ENOMEM;
    } else if (!buffer.restore(ctx.frames, {qp.cold->user, packet->source()}, psn, expected, frame)) {
      archive.refuse(fmt::format("frame at PSN {} appears twice", psn.value()));
    }
  }
  return archive.good() ? 0 : EINVAL;
}

// The frame of these headers, with zeros for payload.
std::span<const std::byte> rebuild(Context& ctx, std::span<const std::byte> headers, uint16_t length,
                                   std::array<std::byte, FramePool::kFrameBytes>& zeros) {
  std::ranges::copy(headers, zeros.begin());
  const auto packet = wire::parse(std::span(zeros).first(length), wire::Icrc::absent);
  return packet ? wire::in_one_piece(*packet, ctx.parked) : std::span<const std::byte>();
}

void read_headers(SnapshotReader& archive, Context& ctx, const Qp& qp, ReorderBuffer& buffer, Psn expected) {
  uint32_t count = 0;
  archive("frames", count, 0, buffer.capacity() + 1);
  for (uint32_t i = 0; i < count && archive.good(); ++i) {
    Psn psn;
    uint16_t length = 0;
    uint16_t headers = 0;
    archive("psn", psn);
    archive("length", length, 0, FramePool::kFrameBytes);
    archive("headers", headers, 0, length);
    const std::span<const std::byte> kept = archive.bytes(headers);
    if (!archive.good()) return;
    std::array<std::byte, FramePool::kFrameBytes> zeros{};
    const auto frame = rebuild(ctx, kept, length, zeros);
    const auto packet = wire::parse(frame, wire::Icrc::skip);
    const bool reached = std::abs(distance(psn, expected)) <= static_cast<int32_t>(buffer.capacity());
    if (!packet || !reached || !buffer.restore(ctx.frames, {qp.cold->user, packet->source()}, psn, expected, frame)) {
      archive.refuse(fmt::format("frame at PSN {} is not a buffered frame of this QP", psn.value()));
    }
  }
}

// Bits that another engine sets anew.
template <class Archive>
void persist_image(Archive& archive, Qp& qp) {
  auto& seal = qp.seal;
  persist_value(archive, "rung", bool{qp.rung}, [&](bool on) { qp.rung = on; });
  persist_value(archive, "discovers", bool{qp.discovers}, [&](bool on) { qp.discovers = on; });
  archive("seal.upper", seal.upper);
  archive("seal.lower", seal.lower);
}

// --- The whole -----------------------------------------------------------------------------------------------------

template <class Archive>
void persist_state(Archive& archive, const Context& ctx, Qp& qp) {
  persist_identity(archive, qp);
  archive("qp", qp);
  archive("cold", *qp.cold);
  if constexpr (Archive::kReads) qp.responses.adopt(qp.cold->replay);
  persist_borrowed(archive, ctx, qp);
  persist_route(archive, ctx, qp);
  persist_congestion(archive, ctx, qp);
  archive.group("tx", [&] { persist_slots(archive, qp); });
  if (qp.tx.recovery != nullptr) archive("recovery", *qp.tx.recovery);
  if constexpr (Archive::kReads) {
    if (qp.selective && qp.tx.recovery != nullptr) begin_selective(qp);
    qp.discovers = qp.tx.recovery != nullptr && qp.tx.recovery->discovery.epoch() != 0;
  }
}

// The QP as if nothing had been read, but for its rings' positions.
void give_up(Context& ctx, Qp& qp) {
  if (Recovery* r = qp.tx.recovery; r != nullptr) {
    r->requests_ahead.drop_all(ctx.frames);
    r->responses_ahead.drop_all(ctx.frames);
    give_back_block(ctx, qp);
  }
  abandon_srq(qp);
  qp.state = QpState::reset;
  qp.cold->timer_pending = false;
}

}  // namespace

std::vector<std::byte> write_snapshot(const Context& ctx, Qp& qp, uint32_t version) {
  std::vector<std::byte> out(kSnapshotHeaderBytes);
  SnapshotWriter archive(out, ctx.now, version);
  persist_state(archive, ctx, qp);
  if (const Recovery* r = qp.tx.recovery; r != nullptr) {
    write_frames(archive, ctx.frames, r->requests_ahead);
    write_frames(archive, ctx.frames, r->responses_ahead);
  }
  bool queued = qp.on_run_queue;
  const TimerNode& turn = qp.cold->pacing_timer;
  Nanos turn_at = turn.armed() ? Nanos(static_cast<int64_t>(turn.tick) * PacingWheel::kTickNanos) : kNever;
  archive("on_run_queue", queued);
  archive.deadline("turn_at", turn_at);
  store_le32(out.data(), kMagic);
  store_le32(out.data() + 4, version);
  seal_snapshot(out);
  return out;
}

std::vector<std::byte> write_qp_image(const Context& ctx, Qp& qp) {
  std::vector<std::byte> out;
  SnapshotWriter archive(out, ctx.now, kSnapshotVersion);
  persist_state(archive, ctx, qp);
  if (const Recovery* r = qp.tx.recovery; r != nullptr) {
    write_headers(archive, ctx.frames, r->requests_ahead);
    write_headers(archive, ctx.frames, r->responses_ahead);
  }
  persist_image(archive, qp);
  return out;
}

Result<void> read_qp_image(Context& ctx, Qp& qp, std::span<const std::byte> image) {
  SnapshotReader archive(image, ctx.now, kSnapshotVersion);
  if (Recovery* r = qp.tx.recovery; r != nullptr && !r->loss.is_whole()) {
    const bool fits = qp.cold->spec.window_packets <= ctx.config.window_packets;
    if (std::byte* const block = fits ? ctx.windows.take_again(qp.cold->user) : nullptr) {
      r->loss.lengthen(block, qp.tx.sent);
    }
  }
  persist_state(archive, ctx, qp);
  if (Recovery* r = qp.tx.recovery; r != nullptr) {
    archive.group("requests_ahead", [&] { read_headers(archive, ctx, qp, r->requests_ahead, qp.rx.expected); });
    archive.group("responses_ahead", [&] { read_headers(archive, ctx, qp, r->responses_ahead, qp.tx.una); });
    const bool short_of_memory = r->short_of_memory;
    if (!r->loss.has_block()) give_back_block(ctx, qp);
    r->short_of_memory = short_of_memory;
  }
  persist_image(archive, qp);
  std::optional<std::string> wrong;
  if (!archive.good()) {
    wrong = archive.error();
  } else if (archive.left() != 0) {
    wrong = fmt::format("{} bytes follow the end", archive.left());
  } else {
    wrong = find_contradiction(ctx.config, qp);
  }
  if (!wrong) return {};
  give_up(ctx, qp);
  return fail(EINVAL, fmt::format("cannot read the image of QP {:#x}: {}", qp.qpn, *wrong));
}

void seal_snapshot(std::span<std::byte> snapshot) {
  store_le32(snapshot.data() + kLengthAt, static_cast<uint32_t>(snapshot.size()));
  store_le32(snapshot.data() + kChecksumAt, checksum(snapshot));
}

Result<Resumption> read_snapshot(Context& ctx, Qp& qp, std::span<const std::byte> snapshot) {
  const auto refuse = [&](int code, std::string_view why) {
    give_up(ctx, qp);
    return fail(code, fmt::format("cannot read the snapshot for QP {:#x}: {}", qp.qpn, why));
  };
  if (const auto envelope = check_envelope(snapshot); !envelope) return refuse(EINVAL, envelope.error().text);
  SnapshotReader archive(snapshot.subspan(kSnapshotHeaderBytes), ctx.now, load_le32(snapshot.data() + 4));
  if (Recovery* r = qp.tx.recovery; r != nullptr && !r->loss.is_whole()) borrow_block(ctx, qp);
  persist_state(archive, ctx, qp);
  int code = 0;
  if (Recovery* r = qp.tx.recovery; r != nullptr) {
    archive.group("requests_ahead",
                  [&] { code = read_frames(archive, ctx, qp, r->requests_ahead, qp.rx.expected, true); });
    archive.group("responses_ahead", [&] {
      if (code == 0) code = read_frames(archive, ctx, qp, r->responses_ahead, qp.tx.una, false);
    });
  }
  bool queued = false;
  Resumption resumption;
  archive("on_run_queue", queued);
  archive.deadline("turn_at", resumption.turn_at);
  if (!archive.good()) return refuse(code != 0 ? code : EINVAL, archive.error());
  if (archive.left() != 0) return refuse(EINVAL, fmt::format("{} bytes follow the end", archive.left()));
  if (const auto wrong = find_contradiction(ctx.config, qp)) return refuse(EINVAL, *wrong);
  if (Recovery* r = qp.tx.recovery; r != nullptr && !r->loss.has_block()) {
    const bool short_of_memory = r->short_of_memory;
    give_back_block(ctx, qp);
    r->short_of_memory = short_of_memory;
  }
  resumption.due = Outcome::wake_if(queued);
  if (qp.state == QpState::error || qp.state == QpState::sqe || qp.flushing) {
    resumption.due |= Outcome::act(Outcome::kFlush);
  }
  if (qp.cold->timer_pending) resumption.due |= Outcome::act(Outcome::kAckTimer);
  if (qp.tx.recovery != nullptr) resumption.due |= Outcome::act(Outcome::kHelloTimer);
  return resumption;
}

}  // namespace uroce::transport
