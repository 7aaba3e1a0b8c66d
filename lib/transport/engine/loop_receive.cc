// The main loop's way of received frames: to packets, and on to their queue pairs.
#include <algorithm>
#include <cstring>

#include "transport/core/guess.h"
#include "transport/datagram/raw_packet.h"
#include "transport/datagram/ud.h"
#include "transport/engine/admission.h"
#include "transport/engine/engine.h"
#include "transport/engine/prefetch.h"
#include "transport/engine/receive.h"
#include "wire/plain_packet.h"

namespace uroce::transport {
namespace {

/// So few bytes per parse that a frame's payload is still in the L1 cache, from the ICRC check, when it is placed: 11 %
/// more WRITE bandwidth.
constexpr std::size_t kParseBytes = 8192;

constexpr uint16_t kSeveral = Owners::kMaxClients;  ///< no client's number

uint16_t owner_of(const Qp* qp) { return qp != nullptr ? qp->tx.owner : Owners::kOwnProcess; }

/// The length of the frame, from Ethernet to ICRC.
uint64_t bytes_of(const wire::Packet& packet) {
  return packet.bth_offset + packet.op().header_length + packet.payload.size() + packet.bth.pad + wire::kIcrcBytes;
}

// How a frame's ICRC is treated.
wire::Icrc icrc_of(const RxFrame& frame, wire::Icrc others) {
  if (frame.lacks_icrc) [[unlikely]]
    return wire::Icrc::absent;
  return others;
}

}  // namespace

void Engine::on_frames(std::span<const RxFrame> frames, Nanos now) {
  ctx_.now = now;
  if (mode_ == Mode::unmarked) return take_frames<Steps::unmarked>(frames);
  if (mode_ == Mode::marked) return take_frames<Steps::marked>(frames);
  if (mode_ == Mode::taped) config_.tape->on_frames(frames, now);
}

inline PredictedPacket& Engine::predicted_for(uint64_t beginning) {
  constexpr uint64_t kGoldenRatio = 0x9e3779b97f4a7c15;
  return ctx_.predicted[beginning * kGoldenRatio >> (64 - Context::kPredictedBits)];
}

template <Steps kSteps>
inline void Engine::take_frames(std::span<const RxFrame> frames) {
  while (!frames.empty()) {
    const uint64_t beginning = wire::HeaderPrediction::beginning_of(frames.front().bytes);
    if (PredictedPacket& next = predicted_for(beginning); next.headers.begins_with(beginning)) {
      if (const std::size_t taken = take_predicted<kSteps>(next, frames); taken > 0) {
        frames = frames.subspan(taken);
        continue;
      }
    }
    if (frames.size() == 1 || frames.front().bytes.size() >= kParseBytes / 2) {
      take_lone<kSteps>(frames.front());
      frames = frames.subspan(1);
      continue;
    }
    const std::size_t most = std::min(frames.size(), kParseBurst);
    std::size_t n = 0;
    std::size_t bytes = 0;
    for (; n < most && bytes < kParseBytes; ++n) {
      const uint64_t next = wire::HeaderPrediction::beginning_of(frames[n].bytes);
      if (n != 0 && predicted_for(next).headers.begins_with(next)) break;
      bytes += frames[n].bytes.size();
    }
    parse_burst<kSteps>(frames.first(n), bytes);
    frames = frames.subspan(n);
  }
  end_steps<kSteps>();
}

// Inlined into its callers: the registers of a call would be saved for every packet.
template <Steps kSteps>
[[gnu::always_inline]] inline void Engine::dispatch_plain(const wire::Packet& packet, Qp& qp) {
  owe(qp.tx.owner, work::kReceived + static_cast<uint32_t>(packet.payload.size()));
  dispatcher_.apply(qp, handle_plain_packet<kSteps>(ctx_, qp, packet));
  ctx_.hand.drop<kSteps>();
}

// Takes the frames at the beginning that are as predicted, by `handle(packet, qp)`. Returns how many there were.
template <class Handle>
[[gnu::always_inline]] inline std::size_t Engine::take_while_predicted(PredictedPacket& next,
                                                                       std::span<const RxFrame> frames,
                                                                       Handle&& handle) {
  const auto icrc = ctx_.config.check_icrc ? wire::Icrc::check : wire::Icrc::skip;
  std::size_t taken = 0;
  for (; taken < frames.size(); ++taken) {
    const RxFrame& frame = frames[taken];
    if (!next.headers.takes(frame.bytes, icrc_of(frame, icrc)) || next.qp->state != next.state) break;
    handle(next.headers.packet(), *next.qp);
  }
  // They have the same length.
  if (taken != 0) traffic_[next.qp->tx.owner].received(taken, taken * frames.front().bytes.size());
  return taken;
}

template <Steps kSteps>
[[gnu::noinline]] std::size_t Engine::take_predicted_datagrams(PredictedPacket& next, std::span<const RxFrame> frames) {
  return take_while_predicted(next, frames, [this](const wire::Packet& packet, Qp& qp) {
    owe(qp.tx.owner, work::kReceived + static_cast<uint32_t>(packet.payload.size()));
    ctx_.hand.take<kSteps>(qp);
    dispatcher_.apply(qp, on_datagram<kSteps>(ctx_, qp, packet));
    ctx_.hand.drop<kSteps>();
  });
}

template <Steps kSteps>
[[gnu::noinline]] std::size_t Engine::take_predicted(PredictedPacket& next, std::span<const RxFrame> frames) {
  if (next.datagrams) return take_predicted_datagrams<kSteps>(next, frames);
  return take_while_predicted(next, frames,
                              [this](const wire::Packet& packet, Qp& qp) { dispatch_plain<kSteps>(packet, qp); });
}

// `packet` came in `frame` and is plain. A flow shows by several of its frames in a row.
inline void Engine::predict(const RxFrame& frame, const wire::Packet& packet, Qp* qp) {
  const uint64_t beginning = wire::HeaderPrediction::beginning_of(frame.bytes);
  PredictedPacket& next = predicted_for(beginning);
  if (!next.headers.comes_again(beginning) || qp == nullptr) return;
  const bool datagrams = packet.bth.opcode == wire::Opcode::ud_send_only;
  if (datagrams ? admit(ctx_, gids_, packet, qp) != wire::Drop::none : !takes_plain(*qp, packet)) return;
  next.headers.learn(frame.bytes, packet);
  next.qp = qp;
  next.state = qp->state;
  next.datagrams = datagrams;
}

// The general way of a frame that is not plain. False: it was dropped.
bool Engine::parse_other(const RxFrame& frame, wire::Icrc icrc, wire::Packet& packet) {
  const wire::Drop reason = wire::parse(frame.bytes, icrc, packet);
  if (reason == wire::Drop::none) return true;
  ctx_.count_drop(reason);
  traffic_[Owners::kOwnProcess].received(1, frame.bytes.size());
  return false;
}

// As parse_burst(), without its stages: nothing else is fetched or parsed meanwhile, or its payload takes longer.
template <Steps kSteps>
void Engine::take_lone(const RxFrame& frame) {
  wire::Packet& packet = parsed_.front();
  const wire::Icrc icrc = icrc_of(frame, ctx_.config.check_icrc ? wire::Icrc::check : wire::Icrc::skip);
  const bool plain_path = ctx_.config.plain_path;
  const bool plain = plain_path && wire::parse_plain(frame.bytes, icrc, packet);
  const bool datagram = !plain && plain_path && wire::parse_plain_datagram(frame.bytes, icrc, packet);
  if (!plain && !datagram && !parse_other(frame, icrc, packet)) return;
  Qp* const qp = table_.find(packet.bth.dest_qpn);
  traffic_[owner_of(qp)].received(1, frame.bytes.size());
  if (plain && qp != nullptr && takes_plain(*qp, packet))
    dispatch_plain<kSteps>(packet, *qp);
  else
    dispatch<kSteps>(packet, qp);
  if (plain || datagram) predict(frame, packet, qp);
}

// Parses the whole burst first, so that the QPs' cache lines arrive while the rest is parsed.
template <Steps kSteps>
void Engine::parse_burst(std::span<const RxFrame> frames, std::size_t bytes) {
  const auto icrc = ctx_.config.check_icrc ? wire::Icrc::check : wire::Icrc::skip;
  // Read once: the compiler cannot know that the packets written do not change them.
  const bool plain_path = ctx_.config.plain_path;
  wire::Packet* const packets = parsed_.data();
  Receiver* const receivers = found_.data();
  std::size_t good = 0;
  uint32_t qpn = 0;       // of the packet before
  bool datagram = false;  // the newest frame is a plain one
  for (const RxFrame& frame : frames) {
    const wire::Icrc how = icrc_of(frame, icrc);
    // Made where it stays: a packet is so large that a copy shows.
    wire::Packet& packet = packets[good];
    const bool plain = plain_path && wire::parse_plain(frame.bytes, how, packet);
    datagram = !plain && plain_path && wire::parse_plain_datagram(frame.bytes, how, packet);
    if (!plain && !datagram && !parse_other(frame, how, packet)) {
      bytes -= frame.bytes.size();
      continue;
    }
    if (packet.bth.dest_qpn != qpn) {
      qpn = packet.bth.dest_qpn;
      table_.prefetch(qpn);
    }
    receivers[good].plain = plain;
    ++good;
  }
  find_receivers(frames, good, bytes);
  for (std::size_t i = 0; i < good; ++i) {
    const wire::Packet& packet = packets[i];
    const auto [qp, plain] = receivers[i];
    if (plain && takes_plain(*qp, packet))
      dispatch_plain<kSteps>(packet, *qp);
    else
      dispatch<kSteps>(packet, qp);
  }
  if (good == 0) return;
  const wire::Packet& last = packets[good - 1];
  if (last.frame != frames.back().bytes.data() || !(receivers[good - 1].plain || datagram)) return;
  predict(frames.back(), last, receivers[good - 1].qp);
}

// The packets of one QP often come together.
inline void Engine::find_receivers(std::span<const RxFrame> frames, std::size_t packets, uint64_t bytes) {
  uint32_t qpn = 0;  // no QP's
  Qp* qp = nullptr;
  uint16_t client = Owners::kOwnProcess;
  for (std::size_t i = 0; i < packets; ++i) {
    const wire::Packet& packet = parsed_[i];
    if (packet.bth.dest_qpn != qpn) {
      qpn = packet.bth.dest_qpn;
      qp = table_.find(qpn);
      if (qp != nullptr) prefetch_handling(*qp, packet);
      if (owner_of(qp) != client) [[unlikely]]
        client = i == 0 ? owner_of(qp) : kSeveral;
    }
    found_[i].qp = qp;
    if (qp == nullptr) found_[i].plain = false;
  }
  client == kSeveral ? count_received(frames, packets) : traffic_[client].received(packets, bytes);
}

void Engine::count_received(std::span<const RxFrame> frames, std::size_t packets) {
  const RxFrame* frame = frames.data();
  for (std::size_t i = 0; i < packets; ++i, ++frame) {
    while (frame->bytes.data() != parsed_[i].frame) ++frame;  // dropped
    traffic_[owner_of(found_[i].qp)].received(1, frame->bytes.size());
  }
}

// One by one: what they touch is in the cache, because this thread has just built them.
void Engine::on_local_frames(std::span<const TxFrame> frames, Nanos now) {
  ctx_.now = now;
  if (mode_ == Mode::unmarked) return take_local_frames<Steps::unmarked>(frames);
  if (mode_ == Mode::marked) return take_local_frames<Steps::marked>(frames);
  if (mode_ == Mode::taped) config_.tape->on_local_frames(frames, now);
}

template <Steps kSteps>
inline void Engine::take_local_frames(std::span<const TxFrame> frames) {
  const bool plain_path = ctx_.config.plain_path;
  wire::Packet& packet = parsed_.front();
  uint64_t bytes = 0;
  for (const TxFrame& frame : frames) {
    const uint64_t before = bytes;
    bytes += frame.header_length + frame.payload_length + frame.pad + wire::kIcrcBytes;
    const auto payload = payload_of(frame);
    const auto belongs_to = [&](uint16_t client) {
      if (!received_locally_.is_of(client)) [[unlikely]]
        change_receiver(client, static_cast<uint64_t>(&frame - frames.data()), before);
    };
    if (plain_path && wire::parse_plain_apart(frame.header, frame.header_length, payload, packet)) {
      Qp* qp = table_.find(packet.bth.dest_qpn);
      if (qp != nullptr && takes_plain(*qp, packet)) {
        belongs_to(qp->tx.owner);
        dispatch_plain<kSteps>(packet, *qp);
      } else {
        belongs_to(owner_of(qp));
        dispatch<kSteps>(packet, qp);
      }
    } else if (const auto other = wire::parse_apart(frame.header, frame.header_length, payload)) {
      Qp* qp = table_.find(other->bth.dest_qpn);
      belongs_to(owner_of(qp));
      dispatch<kSteps>(*other, qp);
    } else {
      belongs_to(Owners::kOwnProcess);
      ctx_.count_drop(other.error());
    }
  }
  end_steps<kSteps>();
  received_locally_.finish<&ClientTraffic::received>(frames.size(), bytes);
}

void Engine::change_receiver(uint16_t client, uint64_t packets, uint64_t bytes) {
  received_locally_.change<&ClientTraffic::received>(client, packets, bytes);
}

std::span<const std::byte> Engine::payload_of(const TxFrame& frame) {
  if (frame.payload_spans == 0) return {};
  if (frame.payload_spans == 1) return {frame.payload->data, frame.payload_length};
  std::byte* at = gathered_.data();
  for (const PayloadSpan& span : std::span(frame.payload, frame.payload_spans)) {
    std::memcpy(at, span.data, span.length);
    at += span.length;
  }
  return {gathered_.data(), frame.payload_length};
}

template <Steps kSteps>
void Engine::dispatch(const wire::Packet& packet, Qp* qp) {
  const wire::Drop reason = admit(ctx_, gids_, packet, qp);
  if (reason == wire::Drop::none) {
    owe(qp->tx.owner, work::kReceived + static_cast<uint32_t>(packet.payload.size()));
    ctx_.hand.take<kSteps>(*qp);
    dispatcher_.apply(*qp, handle_packet<kSteps>(ctx_, *qp, packet));
    return ctx_.hand.drop<kSteps>();
  }
  if (qp == nullptr && packet.bth.dest_qpn == kMulticastQpn) return deliver_to_group(packet);
  ctx_.count_drop(reason);
  if (const auto guess = guess_of(reason)) count_guess(ctx_, packet, *guess);
}

// 10.5: each QP in the group gets the packet as if it were for this QP alone. All engines get the packet; when there
// are no members, engine 0 counts the drop.
void Engine::deliver_to_group(const wire::Packet& packet) {
  if (!vlan_matches(ctx_, packet)) return ctx_.count_drop(wire::Drop::vlan_mismatch);
  const auto members = groups_.members(packet.destination());
  if (members.empty() && ctx_.config.index == 0) ctx_.count_drop(wire::Drop::qp_unknown);
  for (const MulticastGroups::Member& member : members) {
    Qp* qp = table_.find(member.qpn);
    if (qp == nullptr) continue;  // another engine's
    if (const wire::Drop reason = admit(ctx_, gids_, packet, qp, true); reason != wire::Drop::none) {
      ctx_.count_drop(reason);
    } else {
      ctx_.hand.take(*qp);
      owe(qp->tx.owner, work::kReceived + static_cast<uint32_t>(packet.payload.size()));
      traffic_[qp->tx.owner].received_in_group(bytes_of(packet));
      dispatcher_.apply(*qp, on_datagram<Steps::marked>(ctx_, *qp, packet));
      ctx_.hand.drop();
    }
  }
}

void Engine::on_raw_frames(std::span<const RxFrame> frames, Nanos now, FrameTakers takers) {
  ctx_.now = now;
  if (mode_ == Mode::taped) return config_.tape->on_raw_frames(frames, now, takers);
  for (const RxFrame& frame : frames) {
    flows_.distribute(frame.bytes, takers,
                      [&](const FlowEntry& rule, uint32_t qpn) { deliver_raw(rule, qpn, frame.bytes); });
  }
  end_steps();
}

// Another engine's QP gets the frame there.
void Engine::deliver_raw(const FlowEntry& rule, uint32_t qpn, std::span<const std::byte> frame) {
  Qp* qp = table_.find(qpn);
  if (qp == nullptr || qp->type != QpType::raw_packet) return;
  ctx_.hand.take(*qp);
  if (rule.counts) rule.counts->add(frame.size());
  owe(qp->tx.owner, work::kReceived + static_cast<uint32_t>(frame.size()));
  dispatcher_.apply(*qp, on_raw_frame(ctx_, *qp, frame, rule.tag));
}

}  // namespace uroce::transport
