#include "service/memory_operations.h"

#include <optional>
#include <span>
#include <utility>

#include "base/access_flags.h"
#include "control/region.h"
#include "control/window.h"

namespace uroce::service {
namespace {

Error nothing_prepared(const char* what) {
  return {EINVAL, fmt::format("cannot {} memory: none is being prepared on this device; each error ends a preparation, "
                              "and it begins with prepare_memory",
                              what)};
}

using Prepared = std::optional<PreparedMemory>;

/// The mappings that add_segments has made, if the registration wants them. They end with the registration, done or
/// not.
Prepared take_prepared(ClientState& client, const message::RegisterMemory& wanted) {
  return wanted.prepared ? std::exchange(client.prepared, std::nullopt) : std::nullopt;
}

/// Errors: EINVAL.
Result<PreparedMemory> check_prepared(Prepared prepared, const message::RegisterMemory& wanted) {
  if (!prepared) return std::unexpected(nothing_prepared("register"));
  const MappingPlan& plan = prepared->mapping.plan();
  if (!wanted.segments.empty() || wanted.address != plan.address || wanted.length != plan.length ||
      wanted.writable() != plan.writable) {
    return fail(EINVAL, fmt::format("cannot register {} bytes at {:#x} with {} segments: {} {} bytes at {:#x} are "
                                    "prepared, and their segments came before",
                                    wanted.length, wanted.address, wanted.segments.size(), plan.length,
                                    plan.writable ? "writable" : "read-only", plan.address));
  }
  return std::move(*prepared);
}

/// Maps the segments of one message.
Result<PreparedMemory> map_segments(ClientState& client, const message::RegisterMemory& wanted,
                                    std::span<const message::Fd> fds) {
  auto begun = begin_mapping(client, {.length = wanted.length,
                                      .address = wanted.address,
                                      .writable = wanted.writable(),
                                      .segments = static_cast<uint32_t>(wanted.segments.size())});
  if (!begun) return begun;
  if (auto added = begun->mapping.add(wanted.segments, fds); !added) return std::unexpected(added.error());
  return begun;
}

/// A region without its key and its object.
Result<std::shared_ptr<ClientRegion>> map_region(ClientState& client, const message::RegisterMemory& wanted,
                                                 std::span<const message::Fd> fds, Prepared prepared) {
  auto region = std::make_shared<ClientRegion>();
  region->access = AccessFlags::from_bits(wanted.access.bits() & kKnownAccess.bits());
  region->length = wanted.length;
  region->address = wanted.address;
  if (wanted.length == 0 && wanted.segments.empty() && !wanted.prepared) return region;
  auto ready = wanted.prepared ? check_prepared(std::move(prepared), wanted) : map_segments(client, wanted, fds);
  if (!ready) return std::unexpected(ready.error());
  auto mapped = ready->mapping.complete();
  if (!mapped) return std::unexpected(mapped.error());
  // The user may have lost the right since its first segment came.
  if ((*mapped)->punchable() && client.user->must_be_steady()) return fail(EACCES, std::string(WaitAccount::kRefusal));
  region->mapping = std::move(*mapped);
  region->bytes_charge = std::move(ready->bytes_charge);
  region->segments_charge = std::move(ready->segments_charge);
  return region;
}

}  // namespace

Result<PreparedMemory> begin_mapping(ClientState& client, const message::PrepareMemory& wanted, bool populate) {
  auto bytes = client.charge(Resource::registered_bytes, wanted.length);
  if (!bytes) return std::unexpected(bytes.error());
  auto pieces = client.charge(Resource::mapping, wanted.segments);
  if (!pieces) return std::unexpected(pieces.error());
  auto mapping = MappingBuilder::begin(
      {.address = wanted.address,
       .length = wanted.length,
       .writable = wanted.writable,
       .pieces = wanted.segments,
       .rules = {.files = {.disks = client.user->may_register_files(), .exporters = client.user->privileged()},
                 .guard = !client.user->privileged(),
                 .steady = client.user->must_be_steady(),
                 .waits = client.waits,
                 .files_kept = &client.files,
                 .populate = populate}});
  if (!mapping) return std::unexpected(mapping.error());
  return PreparedMemory{std::move(*bytes), std::move(*pieces), std::move(*mapping)};
}

Result<Reply> register_memory(ClientState& client, const message::RegisterMemory& request, Call& call) {
  Prepared prepared = take_prepared(client, request);
  auto pd = client.pds.find(request.pd);
  if (!pd) return std::unexpected(pd.error());
  auto charge = client.charge(Resource::mr);
  if (!charge) return std::unexpected(charge.error());
  auto mapped = map_region(client, request, call.fds, std::move(prepared));
  if (!mapped) return std::unexpected(mapped.error());
  std::shared_ptr<ClientRegion> region = std::move(*mapped);
  region->pd = (*pd)->id();
  auto registered = client.session->register_memory(std::move(*pd), request.base, request.length, region->memory(),
                                                    region->access, region->mapping);
  if (!registered) return std::unexpected(registered.error());
  region->key = (*registered)->key();
  region->region = std::move(*registered);
  client.registered_bytes.fetch_add(request.length, std::memory_order_relaxed);
  const uint32_t key = region->key;
  const uint32_t id = client.regions.add(std::move(region), std::move(*charge));
  return reply(client, message::RegisterMemoryReply{.id = id, .key = key});
}

// The preparation before ends first, so that it does not count.
Result<Reply> prepare_memory(ClientState& client, const message::PrepareMemory& request) {
  client.prepared.reset();
  auto begun = begin_mapping(client, request);
  if (!begun) return std::unexpected(begun.error());
  client.prepared.emplace(std::move(*begun));
  return Reply{};
}

Result<Reply> add_segments(ClientState& client, const message::AddSegments& request, Call& call) {
  if (!client.prepared) return std::unexpected(nothing_prepared("add segments to"));
  auto added = client.prepared->mapping.add(request.segments, call.fds);
  if (!added) client.prepared.reset();
  return done(added);
}

Result<Reply> abandon_memory(ClientState& client, const message::Empty& /*request*/) {
  client.prepared.reset();
  return Reply{};
}

Result<Reply> create_null_region(ClientState& client, const message::Handle& request) {
  auto pd = client.pds.find(request.id);
  if (!pd) return std::unexpected(pd.error());
  auto charge = client.charge(Resource::mr);
  if (!charge) return std::unexpected(charge.error());
  const memory::PdId region_pd = (*pd)->id();
  auto made = client.session->create_null_region(std::move(*pd));
  if (!made) return std::unexpected(made.error());
  auto region = std::make_shared<ClientRegion>();
  region->access = (*made)->spec().access;
  region->null = true;
  region->pd = region_pd;
  region->key = (*made)->key();
  region->region = std::move(*made);
  const uint32_t key = region->key;
  const uint32_t id = client.regions.add(std::move(region), std::move(*charge));
  return reply(client, message::RegisterMemoryReply{.id = id, .key = key});
}

Result<Reply> reregister_memory(ClientState& client, const message::ReregisterMemory& request, Call& call) {
  Prepared prepared = take_prepared(client, request.now);
  auto region = client.regions.find(request.region);
  if (!region) return std::unexpected(region.error());
  const ClientRegion& old = **region;
  std::shared_ptr<control::Region> object;
  {
    const std::scoped_lock lock(client.broken_mutex);
    object = old.region;
  }
  if (object == nullptr) {
    return fail(
        EINVAL,
        fmt::format("memory region {:#x} lost its pages, because its file was truncated or punched; deregister it",
                    old.key));
  }
  const message::RegisterMemory& now = request.now;
  auto pd = client.pds.find(now.pd);
  if (!pd) return std::unexpected(pd.error());
  auto mapped = map_region(client, now, call.fds, std::move(prepared));
  if (!mapped) return std::unexpected(mapped.error());
  // A new entry replaces the old one, so that lists made by other threads show either.
  std::shared_ptr<ClientRegion> fresh = std::move(*mapped);
  fresh->pd = (*pd)->id();
  auto changed = object->change(std::move(*pd), now.base, now.length, fresh->memory(), fresh->access, fresh->mapping);
  if (!changed) return std::unexpected(changed.error());
  fresh->key = old.key;
  fresh->region = std::move(object);
  client.registered_bytes.fetch_add(fresh->length - old.length, std::memory_order_relaxed);
  client.regions.replace(request.region, std::move(fresh));
  return Reply{};
}

Result<Reply> create_window(ClientState& client, const message::CreateWindow& request) {
  auto charge = client.charge(Resource::mr);
  if (!charge) return std::unexpected(charge.error());
  auto pd = client.pds.find(request.pd);
  if (!pd) return std::unexpected(pd.error());
  auto window = client.session->create_window(std::move(*pd), request.type);
  if (!window) return std::unexpected(window.error());
  const uint32_t key = (*window)->key();
  const uint32_t id = client.windows.add(std::move(*window), std::move(*charge));
  return reply(client, message::CreateWindowReply{.id = id, .key = key});
}

Result<Reply> count_windows(ClientState& client, const message::Handle& request) {
  auto region = client.regions.find(request.id);
  if (!region) return std::unexpected(region.error());
  return reply(client, message::WindowCount{client.session->device()->bound_windows((*region)->key)});
}

Result<std::shared_ptr<ClientRegion>> take_region(ClientState& client, uint32_t id) {
  auto region = client.regions.take(id);
  if (region) client.registered_bytes.fetch_sub((*region)->length, std::memory_order_relaxed);
  return region;
}

void retire_broken_regions(ClientState& client) {
  for (auto& [id, region] : client.regions.after(0, UINT32_MAX)) {
    if (region->mapping == nullptr || !region->mapping->broken()) continue;
    std::shared_ptr<control::Region> object;  // ends outside the lock
    {
      const std::scoped_lock lock(client.broken_mutex);
      object.swap(region->region);
    }
    if (object == nullptr) continue;
    client.server.log_of_client(
        client.peer.payer(), Severity::warning,
        fmt::format("client {} ({}, process {}) removed the pages of its memory region {:#x}; the key is "
                    "no longer valid",
                    client.id, client.peer.command, client.peer.pid, region->key));
  }
}

bool break_punchable_regions(ClientState& client) {
  bool any = false;
  for (auto& [id, region] : client.regions.after(0, UINT32_MAX)) {
    if (region->mapping == nullptr || !region->mapping->punchable()) continue;
    region->mapping->break_all();
    any = true;
  }
  const std::scoped_lock lock(client.session_mutex);
  return any || (client.arena != nullptr && client.arena->punchable());
}

bool queues_are_broken(const ClientState& client) {
  const std::scoped_lock lock(client.session_mutex);
  return client.arena != nullptr && client.arena->broken();
}

}  // namespace uroce::service
