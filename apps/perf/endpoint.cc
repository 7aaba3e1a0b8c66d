#include "perf/endpoint.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <random>

#include "perf/plan.h"

namespace uroce::perf {
namespace {

bool link_local(const Gid& gid) { return gid.bytes[0] == 0xfe && (gid.bytes[1] & 0xc0) == 0x80; }

Mtu mtu_code(uint32_t bytes) { return static_cast<Mtu>(std::bit_width(bytes) - 8); }

AccessFlags access_for(const Options& options) {
  const AccessFlags local = Access::local_write;
  if (options.test.verb == Verb::atomic && options.atomic_type == AtomicType::write) {
    return local | Access::remote_write;
  }
  switch (options.test.verb) {
    case Verb::write: return local | Access::remote_write;
    case Verb::read: return local | Access::remote_read;
    case Verb::flush: return local | Access::remote_write | Access::flush_global;
    case Verb::atomic: return local | Access::remote_atomic;
    default: return local;
  }
}

}  // namespace

std::string to_text(const Gid& gid) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (gid.is_ipv4()) {
    ::inet_ntop(AF_INET, gid.bytes.data() + 12, text.data(), text.size());
  } else {
    ::inet_ntop(AF_INET6, gid.bytes.data(), text.data(), text.size());
  }
  return text.data();
}

Endpoint::Endpoint(Context context, const Options& options, Buffer buffer)
    : context_(std::move(context)),
      options_(options),
      buffer_(std::move(buffer)),
      local_bytes_(perf::local_bytes(options)),
      exposed_bytes_(perf::exposed_bytes(options)),
      link_up_(context_.info().link_up) {}

Result<std::unique_ptr<Endpoint>> Endpoint::create(Context context, const Options& options) {
  auto buffer = Buffer::allocate(options.qps * (perf::local_bytes(options) + perf::exposed_bytes(options)));
  if (!buffer) return std::unexpected(buffer.error());
  std::unique_ptr<Endpoint> e(new Endpoint(std::move(context), options, std::move(*buffer)));
  e->path_mtu_ = mtu_bytes(e->info().active_mtu);
  e->outs_ = options.outs == 0 ? e->info().max_rd_atomic : std::min(options.outs, e->info().max_rd_atomic);
  for (const auto stage : {&Endpoint::choose_gid, &Endpoint::create_queues, &Endpoint::create_qps}) {
    if (auto done = (e.get()->*stage)(); !done) return std::unexpected(done.error());
  }
  if (auto done = e->check_mtu(); !done) return std::unexpected(done.error());
  return e;
}

Result<void> Endpoint::choose_gid() {
  const std::vector<Gid>& gids = info().gids;
  if (gids.empty()) return fail(EINVAL, fmt::format("{} has no address; give one with --address", info().name));
  if (options_.gid_index >= 0) {
    if (static_cast<std::size_t>(options_.gid_index) >= gids.size()) {
      return fail(EINVAL, fmt::format("{} has {} GIDs, so that -x {} names none; choose one from 0 to {}", info().name,
                                      gids.size(), options_.gid_index, gids.size() - 1));
    }
    gid_index_ = static_cast<uint8_t>(options_.gid_index);
    return {};
  }
  auto best = std::ranges::find_if(gids, [](const Gid& g) { return g.is_ipv4(); });
  if (best == gids.end()) best = std::ranges::find_if(gids, [](const Gid& g) { return g != Gid{} && !link_local(g); });
  if (best == gids.end()) best = gids.begin();
  gid_index_ = static_cast<uint8_t>(best - gids.begin());
  return {};
}

Result<void> Endpoint::check_mtu() const {
  const uint32_t port = mtu_bytes(info().active_mtu);
  if (options_.mtu <= port) return {};
  return fail(EINVAL, fmt::format("a path MTU of {} does not fit {} ({}), whose port carries at most {}; lower -m or "
                                  "raise the port's MTU with --port-mtu {}",
                                  options_.mtu, info().name, info().driver, port, options_.mtu + 104));
}

Result<void> Endpoint::create_queues() {
  auto pd = context_.create_pd();
  if (!pd) return std::unexpected(pd.error());
  pd_ = std::move(*pd);
  auto region = pd_->register_memory(buffer_.data(), buffer_.size(), access_for(options_));
  if (!region) return std::unexpected(region.error());
  region_ = std::move(*region);
  if (options_.events) {
    auto channel = context_.create_channel();
    if (!channel) return std::unexpected(channel.error());
    channel_ = std::move(*channel);
  }
  // A flush completes every request, signaled or not, so the queue needs room for all.
  const auto entries = [&](uint64_t depth) {
    return static_cast<uint32_t>(std::min<uint64_t>(depth * options_.qps, info().max_cqe));
  };
  const uint32_t pings = options_.test.kind == Kind::lat ? kUncompletedPings : 0;
  auto send_cq =
      context_.create_cq(entries((options_.tx_depth + pings) * requests_of_message(options_.test)), channel());
  if (!send_cq) return std::unexpected(send_cq.error());
  send_cq_ = std::move(*send_cq);
  if (options_.test.verb != Verb::send) return {};
  auto recv_cq = context_.create_cq(entries(options_.rx_depth), channel());
  if (!recv_cq) return std::unexpected(recv_cq.error());
  recv_cq_ = std::move(*recv_cq);
  return {};
}

Result<void> Endpoint::create_qps() {
  if (options_.qps > info().max_qp) {
    return fail(EINVAL, fmt::format("-q {} is more QPs than {} has ({}); ask for fewer", options_.qps, info().name,
                                    info().max_qp));
  }
  QpInit init;
  init.cap.max_send_wr = options_.tx_depth * requests_of_message(options_.test);
  init.cap.max_recv_wr = options_.test.verb == Verb::send ? options_.rx_depth : 1;
  init.cap.max_inline_data = options_.inline_size;
  init.retransmission = options_.retransmission;
  init.congestion_control = options_.congestion_control;
  std::random_device random;
  for (uint32_t i = 0; i < options_.qps; ++i) {
    auto qp = context_.create_qp(*pd_, send_cq(), recv_cq(), init);
    if (!qp) return std::unexpected(qp.error());
    qps_.push_back(std::move(*qp));
    psns_.push_back(random() & 0xffffff);
  }
  return {};
}

Hello Endpoint::hello() const {
  Hello h;
  h.parameters = SharedParameters::of(options_);
  h.gid = gid();
  h.port_mtu = mtu_bytes(info().active_mtu);
  h.reads = info().max_rd_atomic;
  h.rkey = region_->rkey();
  h.remote_base = reinterpret_cast<uintptr_t>(exposed(0));
  h.remote_bytes = exposed_bytes_;
  if (connector_) h.cm_port = connector_->port();
  h.device = info().name;
  for (std::size_t i = 0; i < qps_.size(); ++i) h.qps.push_back({qps_[i].qpn(), psns_[i]});
  return h;
}

Result<uint32_t> Endpoint::agree_mtu(const Hello& peer) const {
  if (options_.mtu > peer.port_mtu) {
    return fail(EINVAL, fmt::format("a path MTU of {} does not fit the other side's port, which carries {}; lower -m "
                                    "or raise that port's MTU with --port-mtu there",
                                    options_.mtu, peer.port_mtu));
  }
  uint32_t mtu = std::min(mtu_bytes(info().active_mtu), peer.port_mtu);
  if (options_.mtu != 0) mtu = std::min(mtu, options_.mtu);
  if (peer.parameters.mtu != 0) mtu = std::min(mtu, peer.parameters.mtu);
  return std::bit_floor(mtu);
}

Result<void> Endpoint::connect(const Hello& peer) {
  const Gid& mine = gid();
  if (peer.qps.size() != qps_.size()) {
    return fail(EINVAL, fmt::format("the other side has {} QPs, but this one {}; give both the same -q",
                                    peer.qps.size(), qps_.size()));
  }
  if (peer.gid == mine) {
    return fail(EINVAL,
                fmt::format("both sides have the address {}; give one of them another with --address", to_text(mine)));
  }
  if (peer.gid.is_ipv4() != mine.is_ipv4()) {
    return fail(EINVAL,
                fmt::format("the other side's address {} and ours, {}, have different IP versions; choose with -x "
                            "or --address",
                            to_text(peer.gid), to_text(mine)));
  }
  auto mtu = agree_mtu(peer);
  if (!mtu) return std::unexpected(mtu.error());
  path_mtu_ = *mtu;
  outs_ = std::min(outs_, peer.reads);
  peer_ = peer;
  return connector_ ? connect_by_rdma_cm(peer) : connect_directly(peer);
}

Result<void> Endpoint::connect_directly(const Hello& peer) {
  for (std::size_t i = 0; i < qps_.size(); ++i) {
    QueuePair::ConnectOptions c;
    c.psn = psns_[i];
    c.sgid_index = gid_index_;
    c.path_mtu = mtu_code(path_mtu_);
    c.access = access_for(options_);
    c.max_rd_atomic = static_cast<uint8_t>(outs_);
    c.max_dest_rd_atomic = static_cast<uint8_t>(info().max_rd_atomic);
    c.timeout = options_.qp_timeout;
    if (auto done = qps_[i].connect({peer.gid, peer.qps[i].qpn, peer.qps[i].psn}, c); !done) {
      return fail(done.error().code, unreachable(done.error().text));
    }
  }
  return {};
}

Result<void> Endpoint::connect_by_rdma_cm(const Hello& peer) {
  // The same attributes as without.
  const auto adjust = [this](QpAttr& attr) {
    attr.access = access_for(options_);
    attr.path_mtu = mtu_code(path_mtu_);
    attr.max_rd_atomic = static_cast<uint8_t>(outs_);
    attr.max_dest_rd_atomic = static_cast<uint8_t>(info().max_rd_atomic);
    attr.timeout = options_.qp_timeout;
  };
  const CmParam terms{.responder_resources = static_cast<uint8_t>(info().max_rd_atomic),
                      .initiator_depth = static_cast<uint8_t>(outs_)};
  return connector_->begin(qps_, gid(), {peer.gid, peer.cm_port}, terms, adjust);
}

Result<bool> Endpoint::connected() {
  if (!connector_) return true;
  auto connected = connector_->step();
  if (connected) return connected;
  return fail(connected.error().code, unreachable(connected.error().text));
}

bool Endpoint::link_up() {
  while (const auto event = context_.next_async_event(std::chrono::nanoseconds(0))) {
    if (event->type == AsyncEventType::port_active) link_up_ = true;
    if (event->type == AsyncEventType::port_error) link_up_ = false;
  }
  return link_up_;
}

std::string Endpoint::unreachable(const std::string& text) {
  return link_up() ? text : fmt::format("{} (the port of {}, {}, is down)", text, info().name, info().driver);
}

}  // namespace uroce::perf
