#include "service/bequeath.h"

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <set>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "control/address_handle.h"
#include "control/cq.h"
#include "control/cq_channel.h"
#include "control/flow.h"
#include "control/qp.h"
#include "control/region.h"
#include "control/srq.h"
#include "control/window.h"
#include "service/bequeath_cm.h"
#include "service/estate_of_xrc.h"
#include "service/newer_than.h"
#include "service/place_of.h"

namespace uroce::service {
namespace {

/// Segments of one row.
constexpr std::size_t kSegmentsPerRow = 1024;

std::unexpected<Error> cannot(std::string_view what) { return fail(EOPNOTSUPP, std::string(what)); }

/// Objects and their numbers, the other way round.
template <class T>
class Numbers {
 public:
  explicit Numbers(const Handles<T>& handles) {
    for (const auto& [id, object] : handles.after(0, SIZE_MAX)) ids_.emplace(object.get(), id);
  }
  /// 0 for none.
  uint32_t of(const std::shared_ptr<T>& object) const {
    const auto found = ids_.find(object.get());
    return found != ids_.end() ? found->second : 0;
  }

 private:
  std::map<const T*, uint32_t> ids_;
};

/// Writes the rows of one device.
class DeviceRows {
 public:
  DeviceRows(const ClientState& client, EstateWriter& out) : client_(client), out_(out) {}

  Result<void> write(uint32_t number) {
    if (auto possible = check(); !possible) return possible;
    for (auto part :
         {&DeviceRows::pieces, &DeviceRows::domains, &DeviceRows::regions, &DeviceRows::prepared, &DeviceRows::windows,
          &DeviceRows::channels, &DeviceRows::completion_queues, &DeviceRows::xrc_domains, &DeviceRows::shared_queues,
          &DeviceRows::handles, &DeviceRows::queue_pairs, &DeviceRows::flows}) {
      number_ = number;
      if (auto written = (this->*part)(); !written) return written;
    }
    return {};
  }

 private:
  Result<void> check() const {
    if (!client_.arena->can_be_adopted()) return cannot("userfaultfd is not permitted here, so its queues are sealed");
    return {};
  }

  Result<void> pieces() {
    const control::DeviceSession& session = *client_.session;
    const auto state = session.state();
    const auto pipe = out_.add(client_.async_pipe.get());
    if (!pipe) return std::unexpected(pipe.error());
    DeviceRow row{.number = number_,
                  .id = client_.id,
                  .name = session.device()->config().name,
                  .calls = client_.calls.load(std::memory_order_relaxed),
                  .errors = client_.errors.load(std::memory_order_relaxed),
                  .async_pipe = *pipe,
                  .doorbells = place_of(client_.session->doorbells().small_rings()),
                  .traffic = to_message(state.traffic)};
    const auto& positions = state.doorbells;
    for (uint32_t engine = 0; engine < positions.size(); ++engine) {
      const control::QueueMemory* large = client_.session->doorbells().large(engine);
      row.rings.emplace_back(positions[engine], large != nullptr ? place_of(*large) : message::Place{});
    }
    const auto pieces = client_.arena->chunks();
    row.pieces = static_cast<uint32_t>(pieces.size());
    out_.add(row);
    for (const Arena::NewChunk& piece : pieces) {
      const auto fd = out_.add(piece.fd);
      if (!fd) return std::unexpected(fd.error());
      out_.add(PieceRow{.fd = *fd, .bytes = piece.bytes});
    }
    return {};
  }

  Result<void> domains() {
    for (const auto& [id, pd] : client_.pds.after(0, SIZE_MAX)) out_.add(PdRow{.id = id, .number = pd->id()});
    return {};
  }

  Result<void> regions() {
    for (const auto& [id, region] : client_.regions.after(0, SIZE_MAX)) {
      if (region->region == nullptr) {
        out_.add(RegionRow{.id = id, .key = region->key, .length = region->length, .gone = true});
        continue;
      }
      if (region->mapping != nullptr) {
        if (auto written = segments(region->mapping->segments()); !written) return written;
      }
      const control::Region& object = *region->region;
      const auto key = keys().state(region->key);
      out_.add(RegionRow{.id = id,
                         .pd = pds_.of(object.pd()),
                         .key = region->key,
                         .usable = key.usable,
                         .null = region->null,
                         .base = object.spec().address,
                         .length = region->length,
                         .address = region->address,
                         .access = region->access,
                         .writable = region->mapping != nullptr && region->mapping->writable()});
    }
    return {};
  }

  Result<void> prepared() {
    if (!client_.prepared) return {};
    const MappingBuilder& mapping = client_.prepared->mapping;
    if (mapping.pieces() != 0) {
      if (auto written = segments(mapping.segments()); !written) return written;
    }
    out_.add(PreparedRow{.planned = {.length = mapping.plan().length,
                                     .address = mapping.plan().address,
                                     .writable = mapping.plan().writable,
                                     .segments = static_cast<uint32_t>(mapping.plan().pieces)}});
    return {};
  }

  Result<void> segments(std::span<const KeptSegment> left) {
    if (left.empty()) {
      return cannot("the user has too many descriptors for the files of its memory (limits.max_descriptors)");
    }
    while (!left.empty()) {
      SegmentsRow row;
      for (const KeptSegment& one : left.first(std::min(left.size(), kSegmentsPerRow))) {
        const auto fd = file(*one.file);
        if (!fd) return std::unexpected(fd.error());
        row.segments.push_back({.fd = *fd, .offset = one.offset, .length = one.length});
      }
      left = left.subspan(row.segments.size());
      out_.add(row);
    }
    return {};
  }

  /// A file's descriptor travels once.
  Result<uint32_t> file(const KeptFile& kept) {
    const auto known = files_.find(&kept);
    if (known != files_.end()) return known->second;
    const auto fd = out_.add(kept.fd.get());
    if (fd) files_.emplace(&kept, *fd);
    return fd;
  }

  Result<void> windows() {
    for (const auto& [id, window] : client_.windows.after(0, SIZE_MAX)) {
      const auto key = keys().state(window->key());
      const auto bound = key.bound.value_or(memory::BindSpec{});
      out_.add(WindowRow{.id = id,
                         .pd = pds_.of(window->pd()),
                         .type = window->type(),
                         .key = window->key(),
                         .bound_key = bound.key,
                         .region = bound.region,
                         .qpn = bound.qpn,
                         .address = bound.address,
                         .length = bound.length,
                         .access = bound.access});
    }
    return {};
  }

  Result<void> channels() {
    for (const auto& [id, channel] : client_.channels.after(0, SIZE_MAX)) {
      if (auto written = add_channel(id, *channel, false); !written) return written;
    }
    return {};
  }

  Result<void> add_channel(uint32_t id, const control::CqChannel& channel, bool closed) {
    const auto read_end = out_.add(channel.fd());
    if (!read_end) return std::unexpected(read_end.error());
    const auto write_end = out_.add(channel.write_end());
    if (!write_end) return std::unexpected(write_end.error());
    out_.add(ChannelRow{.id = id, .read_end = *read_end, .write_end = *write_end, .closed = closed});
    return {};
  }

  Result<void> completion_queues() {
    const Numbers channels(client_.channels);
    std::map<const control::CqChannel*, uint32_t> closed;
    for (const auto& [id, cq] : client_.cqs.after(0, SIZE_MAX)) {
      const auto state = cq->state();
      CqRow row{.id = id,
                .number = state.id,
                .channel = channels.of(cq->channel()),
                .entries = cq->entries(),
                .ignores_overrun = cq->overrun() == transport::CqOverrun::ignored,
                .header = place_of(cq->header_memory()),
                .ring_place = place_of(cq->ring_memory()),
                .moderation_count = state.moderation_count,
                .moderation_us = state.moderation_us};
      if (cq->channel() != nullptr && row.channel == 0) {
        const auto [known, first] = closed.try_emplace(cq->channel().get(), static_cast<uint32_t>(closed.size() + 1));
        row.channel = known->second;
        row.channel_closed = true;
        if (auto written = first ? add_channel(known->second, *cq->channel(), true) : Result<void>(); !written) {
          return written;
        }
      }
      for (const auto& ring : state.rings) row.rings.emplace_back(ring.next, ring.overrun);
      out_.add(row);
    }
    return {};
  }

  Result<void> xrc_domains() {
    std::set<uint32_t> written;
    const auto write = [&](const control::XrcDomain& domain, uint32_t id) -> Result<void> {
      auto row = row_of(domain, id, out_);
      if (!row) return std::unexpected(row.error());
      written.insert(domain.id());
      out_.add(*row);
      return {};
    };
    for (const auto& [id, opened] : client_.xrc_domains.after(0, SIZE_MAX)) {
      if (auto done = write(*opened->domain, id); !done) return done;
    }
    for (const auto& [id, srq] : client_.srqs.after(0, SIZE_MAX)) {
      if (!srq->is_xrc() || written.contains(srq->xrc().domain->id())) continue;
      if (auto done = write(*srq->xrc().domain, 0); !done) return done;
    }
    return {};
  }

  Result<void> shared_queues() {
    const Numbers cqs(client_.cqs);
    for (const auto& [id, srq] : client_.srqs.after(0, SIZE_MAX)) {
      const auto state = srq->state();
      out_.add(SrqRow{.id = id,
                      .number = state.id,
                      .pd = pds_.of(srq->pd()),
                      .max_wr = srq->max_wr(),
                      .max_sge = srq->max_sge(),
                      .place = place_of(srq->memory()),
                      .engine = state.engine,
                      .next = state.next,
                      .xrc_domain = srq->is_xrc() ? srq->xrc().domain->id() : 0,
                      .xrc_cq = srq->is_xrc() ? cqs.of(srq->xrc().cq) : 0});
    }
    return {};
  }

  Result<void> handles() {
    auto& table = client_.session->device()->objects().address_handles().table();
    for (const auto& [id, handle] : client_.address_handles.after(0, SIZE_MAX)) {
      const auto found = table.look_up(handle->id());
      if (!found) continue;
      AddressHandleRow row{.id = id,
                           .number = handle->id(),
                           .pd = pds_.of(handle->pd()),
                           .length = found->route.length,
                           .l3_offset = found->route.l3_offset,
                           .ip_version = found->route.ip_version,
                           .ipv4_partial_sum = found->route.ipv4_partial_sum,
                           .mac = found->dst_mac.load().bytes,
                           .dgid = found->dgid.bytes,
                           .flow_label = found->flow_label,
                           .loopback = found->loopback,
                           .multicast = found->multicast};
      std::memcpy(row.headers.data(), found->route.bytes.data(), row.headers.size());
      out_.add(row);
    }
    return {};
  }

  Result<void> queue_pairs() {
    const Numbers cqs(client_.cqs);
    const Numbers srqs(client_.srqs);
    for (const auto& [id, qp] : client_.qps.after(0, SIZE_MAX)) {
      if (qp->type() == QpType::xrc_target) continue;  // bequeath_targets()
      const auto identity = qp->identity();
      const QpInit init = qp->init();
      QpRow row{.id = id,
                .created = {.pd = pds_.of(qp->refs().pd),
                            .send_cq = cqs.of(qp->refs().send_cq),
                            .recv_cq = cqs.of(qp->refs().recv_cq),
                            .srq = qp->refs().srq != nullptr ? srqs.of(qp->refs().srq) : 0,
                            .type = init.type,
                            .cap = init.cap,
                            .signal_all = init.signal_all,
                            .engine = static_cast<int32_t>(qp->engine()),
                            .retransmission = init.retransmission,
                            .congestion_control = init.congestion_control},
                .qpn = identity.qpn,
                .on_large_doorbells = identity.on_large_doorbells,
                .place = place_of(qp->memory()),
                .snapshot = qp->snapshot(out_.versions().snapshot)};
      for (const Gid& group : identity.groups) row.groups.push_back(group.bytes);
      out_.add(row);
    }
    return {};
  }

  Result<void> flows() {
    const Numbers qps(client_.qps);
    for (const auto& [id, flow] : client_.flows.after(0, SIZE_MAX)) {
      const auto state = flow->state();
      FlowRow row{.id = id, .number = state.id, .created = {.rule = flow->rule(), .hash = flow->hash()}};
      for (const auto& qp : flow->table()) row.created.qps.push_back(qps.of(qp));
      for (const FlowCounters& engine : state.counts) row.counts.emplace_back(engine.packets, engine.bytes);
      if (std::ranges::find(row.created.qps, 0u) != row.created.qps.end())
        return cannot("a receive rule outlives its queue pair");
      out_.add(row);
    }
    return {};
  }

  memory::RegionTable& keys() const { return client_.session->device()->objects().keys().table(); }

  const ClientState& client_;
  EstateWriter& out_;
  const Numbers<control::Pd> pds_{client_.pds};
  std::map<const KeptFile*, uint32_t> files_;
  uint32_t number_ = 0;
};

}  // namespace

Result<void> bequeath(const Program& program, std::span<ClientState* const> devices, EstateWriter& estate) {
  if (program.capture != nullptr) return cannot("it captures frames");
  if (!estate.versions().protocol.contains(program.protocol))
    return cannot("the successor does not speak its protocol");
  if (const auto what = newer_than(estate.versions().estate, program, devices)) {
    return cannot(fmt::format("it has {}, which the successor cannot take over", *what));
  }
  const auto socket = estate.add(program.socket);
  if (!socket) return std::unexpected(socket.error());
  estate.add(ProgramRow{.id = program.id,
                        .protocol = program.protocol,
                        .has_packet_socket = program.has_packet_socket,
                        .socket = *socket});
  for (uint32_t number = 0; number < devices.size(); ++number) {
    const ClientState& client = *devices[number];
    if (client.session == nullptr) {
      estate.add(DeviceRow{.number = number, .id = client.id});
      continue;
    }
    if (auto written = DeviceRows(client, estate).write(number); !written) return written;
  }
  return bequeath_connections(program, devices, estate);
}

}  // namespace uroce::service
