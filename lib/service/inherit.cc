#include <algorithm>
#include <cerrno>
#include <optional>

#include "control/address_handle.h"
#include "control/cq.h"
#include "control/cq_channel.h"
#include "control/flow.h"
#include "control/qp.h"
#include "control/region.h"
#include "control/srq.h"
#include "control/window.h"
#include "service/bequeath.h"
#include "service/device_operations.h"
#include "service/estate_of_xrc.h"
#include "service/memory_operations.h"
#include "service/qp_operations.h"
#include "transport/qp/snapshot_check.h"

namespace uroce::service {
namespace {

std::unexpected<Error> senseless(const char* what, uint32_t id) {
  return fail(EPROTO, fmt::format("the estate's {} {} makes no sense", what, id));
}

/// Makes the objects of one device again.
class Heir {
 public:
  Heir(ClientState& client, EstateReader& in) : client_(client), in_(in) {}

  Result<void> read() {
    while (!in_.at_end()) {
      const auto kind = in_.next();
      if (!kind) return std::unexpected(kind.error());
      if (*kind == Row::program || *kind == Row::device || *kind == Row::cm_program || *kind == Row::xrc_target) break;
      if (auto made = make(*kind); !made) return made;
    }
    return segments_.empty() ? Result<void>() : fail(EPROTO, "the estate has segments without a region");
  }

 private:
  Result<void> make(Row kind) {
    switch (kind) {
      case Row::pd: return with<PdRow>(&Heir::pd);
      case Row::segments: return with<SegmentsRow>(&Heir::segments);
      case Row::region: return with<RegionRow>(&Heir::region);
      case Row::prepared: return with<PreparedRow>(&Heir::prepared);
      case Row::window: return with<WindowRow>(&Heir::window);
      case Row::channel: return with<ChannelRow>(&Heir::channel);
      case Row::cq: return with<CqRow>(&Heir::cq);
      case Row::xrc_domain: return with<XrcDomainRow>(&Heir::xrc_domain);
      case Row::srq: return with<SrqRow>(&Heir::srq);
      case Row::address_handle: return with<AddressHandleRow>(&Heir::handle);
      case Row::qp: return with<QpRow>(&Heir::qp);
      case Row::flow: return with<FlowRow>(&Heir::flow);
      default: return fail(EPROTO, fmt::format("the estate has a row of kind {}", static_cast<uint32_t>(kind)));
    }
  }
  template <class T>
  Result<void> with(Result<void> (Heir::*maker)(const T&)) {
    const auto row = in_.take<T>();
    if (!row) return std::unexpected(row.error());
    return (this->*maker)(*row);
  }
  /// Puts the object into the client's table, with its charge.
  template <class T>
  Result<void> keep(Handles<T>& handles, uint32_t id, Result<std::shared_ptr<T>> made, const char* what,
                    Result<Charge> charge) {
    if (!made) return std::unexpected(made.error());
    if (!charge) return std::unexpected(charge.error());
    if (!handles.add(id, std::move(*made), std::move(*charge))) return senseless(what, id);
    return {};
  }

  Result<void> pd(const PdRow& row) {
    if (row.number == 0) return senseless("protection domain", row.id);
    return keep(client_.pds, row.id, session().create_pd(row.number), "protection domain",
                client_.charge(Resource::pd));
  }

  Result<void> segments(const SegmentsRow& row) {
    segments_.insert(segments_.end(), row.segments.begin(), row.segments.end());
    return {};
  }

  /// A mapping whose first segments came to the other daemon.
  Result<PreparedMemory> begin(const message::PrepareMemory& planned, std::span<const message::Segment> segments) {
    auto begun = begin_mapping(client_, planned, false);
    if (!begun) return begun;
    for (const message::Segment& segment : segments) {
      const auto fd = in_.fd(segment.fd);
      if (!fd) return std::unexpected(fd.error());
      if (auto added = begun->mapping.add_one(segment, *fd); !added) return std::unexpected(added.error());
    }
    return begun;
  }

  Result<void> prepared(const PreparedRow& row) {
    auto begun = begin(row.planned, std::exchange(segments_, {}));
    if (!begun) return std::unexpected(begun.error());
    client_.prepared.emplace(std::move(*begun));
    return {};
  }

  Result<std::shared_ptr<ClientRegion>> map(const RegionRow& row) {
    const auto segments = std::exchange(segments_, {});
    auto region = std::make_shared<ClientRegion>();
    region->key = row.key;
    region->null = row.null;
    region->access = row.access;
    region->length = row.length;
    region->address = row.address;
    if (segments.empty()) return region;
    auto begun = begin({.length = row.length,
                        .address = row.address,
                        .writable = row.writable,
                        .segments = static_cast<uint32_t>(segments.size())},
                       segments);
    if (!begun) return std::unexpected(begun.error());
    auto mapped = begun->mapping.complete();
    if (!mapped) return std::unexpected(mapped.error());
    region->mapping = std::move(*mapped);
    region->bytes_charge = std::move(begun->bytes_charge);
    region->segments_charge = std::move(begun->segments_charge);
    return region;
  }

  Result<void> region(const RegionRow& row) {
    if (row.gone) return gone_region(row);
    auto pd = client_.pds.find(row.pd);
    if (!pd) return std::unexpected(pd.error());
    auto mapped = map(row);
    if (!mapped) return std::unexpected(mapped.error());
    ClientRegion& region = **mapped;
    if (!row.null && row.length != 0 && region.mapping == nullptr) return senseless("memory region", row.id);
    region.pd = (*pd)->id();
    const memory::KeyState as{.key = row.key, .usable = row.usable};
    auto made = row.null ? session().create_null_region(std::move(*pd), &as)
                         : session().register_memory(std::move(*pd), row.base, row.length, region.memory(),
                                                     region.access, region.mapping, &as);
    if (!made) return std::unexpected(made.error());
    region.region = std::move(*made);
    client_.registered_bytes.fetch_add(row.length, std::memory_order_relaxed);
    return keep(client_.regions, row.id, std::move(mapped), "memory region", client_.charge(Resource::mr));
  }

  Result<void> gone_region(const RegionRow& row) {
    auto region = std::make_shared<ClientRegion>();
    region->key = row.key;
    region->length = row.length;
    client_.registered_bytes.fetch_add(row.length, std::memory_order_relaxed);
    return keep(client_.regions, row.id, Result<std::shared_ptr<ClientRegion>>(std::move(region)), "memory region",
                client_.charge(Resource::mr));
  }

  Result<void> window(const WindowRow& row) {
    auto pd = client_.pds.find(row.pd);
    if (!pd) return std::unexpected(pd.error());
    memory::KeyState as{.key = row.key};
    if (row.bound_key != 0) {
      as.bound = memory::BindSpec{.key = row.bound_key,
                                  .pd = (*pd)->id(),
                                  .qpn = row.qpn,
                                  .region = row.region,
                                  .address = row.address,
                                  .length = row.length,
                                  .access = row.access};
    }
    return keep(client_.windows, row.id, session().create_window(std::move(*pd), row.type, &as), "memory window",
                client_.charge(Resource::mr));
  }

  Result<void> channel(const ChannelRow& row) {
    auto read_end = in_.take_fd(row.read_end);
    if (!read_end) return std::unexpected(read_end.error());
    auto write_end = in_.take_fd(row.write_end);
    if (!write_end) return std::unexpected(write_end.error());
    auto pipe = control::EventPipe::of(read_end->release(), write_end->release());
    if (row.closed) {
      closed_channels_[row.id] = session().create_channel(std::move(pipe));
      return {};
    }
    return keep(client_.channels, row.id,
                Result<std::shared_ptr<control::CqChannel>>(session().create_channel(std::move(pipe))),
                "completion channel", client_.charge(Resource::descriptor, kDescriptorsOfChannel));
  }

  Result<void> cq(const CqRow& row) {
    std::shared_ptr<control::CqChannel> channel;
    if (row.channel_closed) {
      const auto found = closed_channels_.find(row.channel);
      if (found == closed_channels_.end()) return senseless("completion queue", row.id);
      channel = found->second;
    } else if (row.channel != 0) {
      auto found = client_.channels.find(row.channel);
      if (!found) return std::unexpected(found.error());
      channel = std::move(*found);
    }
    control::CqState as{
        .id = row.number, .moderation_count = row.moderation_count, .moderation_us = row.moderation_us, .rings = {}};
    for (const auto& [next, overrun] : row.rings) as.rings.push_back({.next = next, .overrun = overrun});
    const message::Place places[] = {row.header, row.ring_place};
    client_.arena->expect(places);
    const auto overrun = row.ignores_overrun ? transport::CqOverrun::ignored : transport::CqOverrun::fails;
    return keep(client_.cqs, row.id, session().create_cq(row.entries, std::move(channel), overrun, &as),
                "completion queue", client_.charge(Resource::cq));
  }

  Result<void> xrc_domain(const XrcDomainRow& row) {
    auto domain = adopt_domain(session().device(), row, in_);
    if (!domain) return std::unexpected(domain.error());
    domains_[row.number] = *domain;
    if (row.id == 0) return {};
    auto opened = std::make_shared<ClientXrcDomain>();
    opened->domain = std::move(*domain);
    auto descriptor = client_.charge(Resource::descriptor, row.has_file ? 1 : 0);
    if (!descriptor) return std::unexpected(descriptor.error());
    opened->descriptor = std::move(*descriptor);
    return keep(client_.xrc_domains, row.id, Result<std::shared_ptr<ClientXrcDomain>>(std::move(opened)), "XRC domain",
                client_.charge(Resource::pd));
  }

  Result<void> srq(const SrqRow& row) {
    auto pd = client_.pds.find(row.pd);
    if (!pd) return std::unexpected(pd.error());
    const control::SrqState as{.id = row.number, .engine = row.engine, .next = row.next};
    client_.arena->expect({&row.place, 1});
    control::DeviceSession::XrcQueue xrc;
    if (row.xrc_domain != 0) {
      const auto domain = domains_.find(row.xrc_domain);
      auto cq = client_.cqs.find(row.xrc_cq);
      if (domain == domains_.end() || !cq) return senseless("shared receive queue", row.id);
      xrc = {.domain = domain->second, .cq = std::move(*cq)};
    }
    return keep(client_.srqs, row.id,
                session().create_srq(std::move(*pd), row.max_wr, row.max_sge, std::move(xrc), &as),
                "shared receive queue", client_.charge(Resource::srq));
  }

  Result<void> handle(const AddressHandleRow& row) {
    auto pd = client_.pds.find(row.pd);
    if (!pd) return std::unexpected(pd.error());
    transport::AddressHandle as{.pd = (*pd)->id(),
                                .route = {.length = row.length,
                                          .l3_offset = row.l3_offset,
                                          .ip_version = row.ip_version,
                                          .ipv4_partial_sum = row.ipv4_partial_sum},
                                .dst_mac = transport::LiveMac(EthAddr{row.mac}),
                                .dgid = Gid{row.dgid},
                                .flow_label = row.flow_label,
                                .loopback = row.loopback,
                                .multicast = row.multicast};
    std::memcpy(as.route.bytes.data(), row.headers.data(), row.headers.size());
    const auto gids = session().device()->former_gids();
    if (!transport::is_plausible(session().device()->engine(0).config(), as.route) ||
        std::ranges::find(gids, wire::source_of(as.route)) == gids.end()) {
      return senseless("address handle", row.id);
    }
    return keep(client_.address_handles, row.id, session().create_address_handle(std::move(*pd), as, row.number),
                "address handle", client_.charge(Resource::ah));
  }

  Result<void> qp(const QpRow& row) {
    const message::CreateQp& created = row.created;
    if (!is_known(created.type) || created.type == QpType::xrc_target) {
      return senseless("queue pair", row.id);
    }
    if (created.type == QpType::raw_packet) {
      if (auto ok = check_raw_packets(client_); !ok) return ok;
    }
    auto parts = parts_of(client_, created);
    if (!parts) return std::unexpected(parts.error());
    const QpInit init{.type = created.type,
                      .cap = created.cap,
                      .signal_all = created.signal_all,
                      .retransmission = created.retransmission,
                      .congestion_control = created.congestion_control};
    control::QpIdentity as{.qpn = row.qpn, .on_large_doorbells = row.on_large_doorbells, .groups = {}};
    client_.arena->expect({&row.place, 1});
    auto made = session().create_qp(std::move(parts->pd), std::move(parts->send_cq), std::move(parts->recv_cq), init,
                                    std::move(parts->srq), &as);
    if (!made) return std::unexpected(made.error());
    if (auto adopted = (*made)->adopt(row.snapshot); !adopted) return adopted;
    for (const auto& group : row.groups) {
      if (auto joined = (*made)->attach_multicast(Gid{group}); !joined) return joined;
    }
    return keep(client_.qps, row.id, std::move(made), "queue pair", client_.charge(Resource::qp));
  }

  Result<void> flow(const FlowRow& row) {
    if (auto ok = check_flow(client_, row.created.rule); !ok) return ok;
    control::Flow::Table table;
    for (const uint32_t id : row.created.qps) {
      auto found = client_.qps.find(id);
      if (!found) return std::unexpected(found.error());
      table.push_back(std::move(*found));
    }
    if (table.empty()) return senseless("receive rule", row.id);
    control::FlowState as{.id = row.number, .counts = {}};
    for (const auto& [packets, bytes] : row.counts) as.counts.push_back({.packets = packets, .bytes = bytes});
    return keep(client_.flows, row.id, control::Flow::create(std::move(table), row.created.rule, row.created.hash, &as),
                "receive rule", client_.charge(Resource::flow));
  }

  control::DeviceSession& session() const { return *client_.session; }

  ClientState& client_;
  EstateReader& in_;
  std::vector<message::Segment> segments_;
  std::map<uint32_t, std::shared_ptr<control::XrcDomain>> domains_;  // by their number of the device
  std::map<uint32_t, std::shared_ptr<control::CqChannel>> closed_channels_;
};

}  // namespace

Result<void> inherit(ClientState& client, const DeviceRow& row, EstateReader& estate) {
  const auto& devices = client.server.devices();
  const auto found = std::ranges::find_if(devices, [&](const auto& one) { return one->config().name == row.name; });
  if (found == devices.end()) return fail(ENODEV, fmt::format("there is no device '{}'", row.name.substr(0, 64)));
  auto arena = make_arena(client);
  for (uint32_t piece = 0; piece < row.pieces; ++piece) {
    const auto next = estate.take<PieceRow>();
    if (!next) return std::unexpected(next.error());
    auto fd = estate.take_fd(next->fd);
    if (!fd) return std::unexpected(fd.error());
    if (auto adopted = arena->adopt(std::move(*fd), next->bytes); !adopted) return adopted;
  }
  control::SessionState as{.doorbells = {},
                           .traffic = {.rx_packets = row.traffic.rx_packets,
                                       .rx_bytes = row.traffic.rx_bytes,
                                       .tx_packets = row.traffic.tx_packets,
                                       .tx_bytes = row.traffic.tx_bytes}};
  std::vector<message::Place> places{row.doorbells};
  for (const auto& [positions, large] : row.rings) {
    as.doorbells.push_back(positions);
    if (positions.size() > 1) places.push_back(large);
  }
  arena->expect(places);
  auto session = control::DeviceSession::open(*found, arena, client.user->owner(client.id), &as);
  if (!session) return std::unexpected(session.error());
  auto pipe = estate.take_fd(row.async_pipe);
  if (!pipe) return std::unexpected(pipe.error());
  client.calls.store(row.calls, std::memory_order_relaxed);
  client.errors.store(row.errors, std::memory_order_relaxed);
  {
    const std::scoped_lock lock(client.session_mutex);
    client.session = std::move(*session);
    client.counted.emplace(client.user->traffic(), *client.session);
    client.arena = std::move(arena);
    client.async_pipe = std::move(*pipe);
  }
  return Heir(client, estate).read();
}

}  // namespace uroce::service
