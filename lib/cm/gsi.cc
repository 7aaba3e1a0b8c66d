#include "cm/gsi.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>

#include <fmt/format.h>

#include <unistd.h>

#include "transport/datagram/grh.h"
#include "transport/qp/spec.h"

namespace uroce::cm {
namespace {

using transport::kGrhBytes;

constexpr uint32_t kSends = 1024;
/// One send in so many asks for a completion, because each wakes the thread.
constexpr uint64_t kSignalEvery = 16;
constexpr uint32_t kReceives = 8192;
constexpr std::size_t kSlotBytes = 320;  // GRH and MAD, and more, to detect datagrams that are too long
constexpr std::size_t kMaxUnsent = 65536;
constexpr std::size_t kMaxUnresolved = 256;
constexpr std::size_t kMaxHandles = 1024;
constexpr std::size_t kHandlesEver = 16384;
constexpr uint64_t kSendId = uint64_t{1} << 63;  // beside the send's number
constexpr int kPollsPerTake = 8;
constexpr Nanos kResolveTimeout = std::chrono::seconds(3);
/// The first retry of a MAD to an address that is not known, and the part of its wait that the next one is away.
constexpr Nanos kRetryInterval = std::chrono::milliseconds(1);
constexpr int kRetryPart = 8;

struct Addresses {
  Gid source, destination;
};

// UD writes the IPv6 header here, or the IPv4 header to the last 20 bytes (annex A17).
std::optional<Addresses> addresses_of(std::span<const std::byte, kGrhBytes> grh) {
  Addresses out;
  const auto version_at = [&grh](std::size_t at) { return std::to_integer<uint8_t>(grh[at]) >> 4; };
  if (version_at(0) == 6) {
    std::memcpy(out.source.bytes.data(), grh.data() + 8, 16);
    std::memcpy(out.destination.bytes.data(), grh.data() + 24, 16);
    return out;
  }
  if (version_at(20) != 4) return std::nullopt;
  const auto ipv4_at = [&grh](std::size_t at) {
    Gid gid = Gid::from_ipv4(0);
    std::memcpy(gid.bytes.data() + 12, grh.data() + at, 4);
    return gid;
  };
  return Addresses{ipv4_at(32), ipv4_at(36)};
}

}  // namespace

Result<std::unique_ptr<Gsi>> Gsi::open(const std::shared_ptr<control::Device>& device) {
  std::unique_ptr<Gsi> gsi(new Gsi);
  auto session = control::DeviceSession::open(device);
  if (!session) return std::unexpected(session.error());
  gsi->session_ = *session;
  auto pd = gsi->session_->create_pd();
  if (!pd) return std::unexpected(pd.error());
  gsi->pd_ = *pd;
  auto channel = gsi->session_->create_channel();
  if (!channel) return std::unexpected(channel.error());
  gsi->channel_ = *channel;
  auto cq = gsi->session_->create_cq(kSends + kReceives, gsi->channel_);
  if (!cq) return std::unexpected(cq.error());
  gsi->cq_ = *cq;
  gsi->memory_.resize(kReceives * kSlotBytes);
  auto region = gsi->session_->register_memory(gsi->pd_, reinterpret_cast<uint64_t>(gsi->memory_.data()),
                                               gsi->memory_.size(), gsi->memory_.data(), Access::local_write);
  if (!region) return std::unexpected(region.error());
  gsi->region_ = *region;
  const QpCap cap{.max_send_wr = kSends, .max_recv_wr = kReceives, .max_inline_data = kMadBytes};
  auto qp = gsi->session_->create_gsi_qp(gsi->pd_, gsi->cq_, cap);
  if (!qp) return std::unexpected(qp.error());
  gsi->qp_ = *qp;
  const control::ControlQp& made = *gsi->qp_;
  gsi->poller_ = std::make_unique<queues::CqPoller>(gsi->cq_->place(), gsi->cq_->rings());
  gsi->send_queue_ = std::make_unique<queues::SendQueue>(made.send_queue(), QpType::ud, made.cap(),
                                                         made.doorbell_flag(), made.doorbell(), made.qpn());
  gsi->recv_queue_ = queues::RecvQueue(made.recv_queue(), made.cap().max_recv_sge);
  constexpr QpAttrMask kState = QpAttrBit::state;
  const QpAttr init{.state = QpState::init, .qkey = transport::kGsiQkey};
  const QpAttrMask init_mask = kState | QpAttrBit::pkey_index | QpAttrBit::port | QpAttrBit::qkey;
  if (auto ok = gsi->qp_->modify(init, init_mask); !ok) return std::unexpected(ok.error());
  for (uint32_t slot = 0; slot < kReceives; ++slot) gsi->post_receive(slot);
  queues::arm(*gsi->cq_->place().header, queues::Arm::any);
  if (auto ok = gsi->qp_->modify({.state = QpState::rtr}, kState); !ok) return std::unexpected(ok.error());
  if (auto ok = gsi->qp_->modify({.state = QpState::rts}, kState | QpAttrBit::sq_psn); !ok) {
    return std::unexpected(ok.error());
  }
  return gsi;
}

void Gsi::post_receive(uint32_t slot) {
  const Sge sge{reinterpret_cast<uint64_t>(memory_.data() + slot * kSlotBytes), kSlotBytes, region_->key()};
  recv_queue_.post({.wr_id = slot, .sges = {&sge, 1}});
}

void Gsi::read_events() {
  std::array<char, 64> tokens{};
  while (read(channel_->fd(), tokens.data(), tokens.size()) == static_cast<ssize_t>(tokens.size())) {
  }
}

bool Gsi::take(const Handler& handler, Then then) {
  if (then == Then::waits) queues::arm(*cq_->place().header, queues::Arm::any);
  for (const IncomingSnapshot& one : std::exchange(arrived_, {})) handler(one.source, one.destination, one.mad);
  std::array<Completion, 64> completions;
  for (int i = 0; i < kPollsPerTake; ++i) {
    const std::size_t count = poller_->poll(completions);
    for (const Completion& completion : std::span(completions).first(count)) accept(completion, handler);
    if (std::exchange(stopped_, false)) (void)qp_->modify({.state = QpState::rts}, QpAttrBit::state);
    flush();
    if (count < completions.size()) return false;
  }
  return true;
}

void Gsi::accept(const Completion& completion, const Handler& handler) {
  if ((completion.wr_id & kSendId) != 0) {
    completed_ = completion.wr_id & ~kSendId;  // and so are all before it
    // A failed send moves the QP to SQE. take() brings it back to RTS.
    stopped_ = stopped_ || completion.status != WcStatus::success;
    return;
  }
  const auto slot = static_cast<uint32_t>(completion.wr_id);
  if (completion.status == WcStatus::success) {
    const std::span<const std::byte> bytes(memory_.data() + slot * kSlotBytes, completion.byte_len);
    const auto addresses = addresses_of(bytes.first<kGrhBytes>());
    if (addresses && bytes.size() == kGrhBytes + kMadBytes) {
      counters_.received.add();
      handler(addresses->source, addresses->destination, bytes.subspan(kGrhBytes));
    } else {
      counters_.malformed.add();
    }
  }
  post_receive(slot);
}

void Gsi::send(const CmPath& path, const Mad& mad, Nanos now) {
  // If others wait for room already, wait behind them, so that the order is kept.
  const int error = unsent_.empty() && !held_ ? try_send(path, mad) : ENOMEM;
  if (error == 0) return;
  const Outgoing waiting{path, mad, now, now + kRetryInterval};
  if (error == EHOSTUNREACH) return await_address(waiting);
  if (error != ENOMEM) return counters_.unreachable.add();
  if (unsent_.size() >= kMaxUnsent) return counters_.overflow.add();
  unsent_.push_back(waiting);
}

void Gsi::await_address(Outgoing waiting) {
  if (unresolved_.size() >= kMaxUnresolved) return counters_.overflow.add();
  unresolved_.push_back(waiting);
}

int Gsi::try_send(const CmPath& path, const Mad& mad) {
  const auto handle = handle_for(path);
  if (!handle) return handle.error().code == ENOMEM ? ENOBUFS : handle.error().code;
  const bool signaled = (sent_ + 1) % kSignalEvery == 0 || handles_.size() >= kMaxHandles;
  const int error = send_queue_->put({.wr_id = kSendId | (sent_ + 1),
                                      .opcode = WrOpcode::send,
                                      .flags = SendFlag::inline_data | (signaled ? SendFlag::signaled : SendFlags{}),
                                      .inline_data = mad,
                                      .ah = *handle,
                                      .remote_qpn = transport::kGsiQpn,
                                      .remote_qkey = transport::kGsiQkey});
  if (error != 0) return error;
  if (send_queue_->commit()) wake_owed_.store(true, std::memory_order_relaxed);
  counters_.sent.add();
  ++sent_;
  return 0;
}

Result<uint32_t> Gsi::handle_for(const CmPath& path) {
  const Destination key{path.sgid, path.dgid, path.traffic_class, path.hop_limit, path.flow_label};
  if (const auto found = handles_.find(key); found != handles_.end()) return found->second->id();
  if (handles_.size() >= kHandlesEver)
    return fail(ENOMEM,
                fmt::format("cannot send a MAD: {} address handles are in use, which is the limit", handles_.size()));
  const auto gids = session_->device()->gids();
  const auto sgid = std::ranges::find(gids, path.sgid);
  if (sgid == gids.end())
    return fail(EADDRNOTAVAIL, "cannot send a MAD: the device does not have its source address any more");
  const AddressVector av{.dgid = path.dgid,
                         .sgid_index = static_cast<uint8_t>(sgid - gids.begin()),
                         .hop_limit = path.hop_limit,
                         .traffic_class = path.traffic_class,
                         .flow_label = path.flow_label};
  auto handle = session_->create_address_handle(pd_, av, Nanos(0));
  if (!handle) return std::unexpected(handle.error());
  // Peers come and go, and creating a handle again costs microseconds. Outstanding sends still need theirs.
  if (handles_.size() >= kMaxHandles && sent_ == completed_) handles_.clear();
  const uint32_t id = (*handle)->id();
  handles_.emplace(key, std::move(*handle));
  return id;
}

void Gsi::flush() {
  while (!unsent_.empty()) {
    const int error = try_send(unsent_.front().path, unsent_.front().mad);
    if (error == ENOMEM) return;
    if (error == EHOSTUNREACH) {
      await_address(unsent_.front());
    } else if (error != 0) {
      counters_.unreachable.add();
    }
    unsent_.pop_front();
  }
}

void Gsi::retry(Nanos now) {
  for (std::size_t left = unresolved_.size(); left > 0; --left) {
    Outgoing next = unresolved_.front();
    unresolved_.pop_front();
    if (now < next.again) {
      unresolved_.push_back(next);
      continue;
    }
    next.again =
        std::min(now + std::max(kRetryInterval, (now - next.since) / kRetryPart), next.since + kResolveTimeout);
    const int error = try_send(next.path, next.mad);
    if (error == 0) continue;
    if (error == ENOMEM && unsent_.size() < kMaxUnsent) {
      unsent_.push_back(next);
    } else if (error == EHOSTUNREACH && now < next.since + kResolveTimeout) {
      unresolved_.push_back(next);
    } else {
      counters_.unreachable.add();
    }
  }
}

Nanos Gsi::next_retry() const {
  Nanos next = kNever;
  for (const Outgoing& one : unresolved_) next = std::min(next, one.again);
  return next;
}

}  // namespace uroce::cm
