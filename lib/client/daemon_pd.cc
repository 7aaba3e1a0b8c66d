#include "client/daemon_pd.h"

#include <cerrno>
#include <span>
#include <string>
#include <utility>

#include "client/presence.h"
#include "message/device_messages.h"
#include "message/qp_messages.h"

namespace uroce::client {

using message::Kind;
using message::Op;

namespace {

/// A registered range of shared memory. It outlives its region.
class RegisteredRange {
 public:
  RegisteredRange(void* address, std::size_t length) : address_(address), length_(length) {}
  ~RegisteredRange() { sharing::Sharing::of_this_process().done_with(address_, length_); }
  RegisteredRange(const RegisteredRange&) = delete;
  RegisteredRange& operator=(const RegisteredRange&) = delete;

 private:
  void* address_;
  std::size_t length_;
};

}  // namespace

Result<std::shared_ptr<MrImpl>> DaemonPd::register_dmabuf(int fd, uint64_t offset, std::size_t length, uint64_t base,
                                                          AccessFlags access) {
  constexpr uint64_t kPage = 4096;
  const uint64_t first = offset / kPage * kPage;
  const uint64_t pages = (offset - first + length + kPage - 1) / kPage;
  // There is no address of ours that the daemon's should be aligned like.
  const message::RegisterMemory request{.pd = id_of(object),
                                        .base = base,
                                        .length = length,
                                        .address = offset,
                                        .access = access,
                                        .segments = {{.fd = 0, .offset = first, .length = pages * kPage}}};
  auto reply = link_->call<message::RegisterMemoryReply>(Op::register_memory, request, std::span(&fd, 1));
  if (!reply) return std::unexpected(reply.error());
  return region_of(*reply);
}

Result<std::shared_ptr<MrImpl>> DaemonPd::create_null_region() {
  auto reply = link_->call<message::RegisterMemoryReply>(Op::create_null_region, message::Handle{id_of(object)});
  if (!reply) return std::unexpected(reply.error());
  return region_of(*reply);
}

Result<std::shared_ptr<MwImpl>> DaemonPd::create_window(WindowType type) {
  auto reply = link_->call<message::CreateWindowReply>(Op::create_window, message::CreateWindow{id_of(object), type});
  if (!reply) return std::unexpected(reply.error());
  auto mw = std::make_shared<MwImpl>();
  mw->object = std::make_shared<DaemonObject>(link_, Kind::window, reply->id, std::vector<Object>{object});
  mw->key = reply->key;
  mw->type = type;
  return mw;
}

Result<std::shared_ptr<AhImpl>> DaemonPd::create_address_handle(const AddressVector& av) {
  message::CreateAddressHandle request{.pd = id_of(object), .av = av};
  auto reply = link_->call<message::CreateAddressHandleReply>(Op::create_address_handle, request);
  if (!reply) return std::unexpected(reply.error());
  auto ah = std::make_shared<AhImpl>();
  ah->id = reply->number;
  ah->object = std::make_shared<DaemonObject>(link_, Kind::address_handle, reply->id, std::vector<Object>{object});
  return ah;
}

Result<DaemonPd::Shared> DaemonPd::share(void* address, std::size_t length, uint64_t base, AccessFlags access) const {
  const auto start = reinterpret_cast<uint64_t>(address);
  if (length > UINT64_MAX - start) {
    return fail(EINVAL, "cannot register " + std::to_string(length) + " bytes of memory; a region ends below 2^64");
  }
  Shared shared;
  shared.request = {.pd = id_of(object), .base = base, .length = length, .address = start, .access = access};
  if (length == 0) return shared;  // no memory is reached by its keys
  auto segments = sharing::Sharing::of_this_process().share(address, length, shared.request.writable());
  if (!segments) return std::unexpected(segments.error());
  shared.range = std::make_shared<RegisteredRange>(address, length);
  give_pages(address, length, shared.request.writable());
  shared.segments = std::move(*segments);
  return shared;
}

Result<RegionPart> DaemonPd::prepare(Shared& shared, std::unique_lock<std::mutex>& preparing) const {
  RegionParts parts(std::exchange(shared.segments, {}), shared.request.writable());
  auto part = parts.next();
  if (!part || parts.done()) return part;
  preparing = std::unique_lock(link_->preparing());
  const message::PrepareMemory all{.length = shared.request.length,
                                   .address = shared.request.address,
                                   .writable = shared.request.writable(),
                                   .segments = static_cast<uint32_t>(parts.segments())};
  auto done = link_->call<message::Empty>(Op::prepare_memory, all);
  while (done) {
    done = link_->call<message::Empty>(Op::add_segments, message::AddSegments{std::move(part->segments)}, part->fds);
    if (!done || parts.done()) break;
    part->open.clear();  // before others are opened
    part = parts.next();
    if (part) continue;
    (void)link_->post(Op::abandon_memory, message::Empty{});
    return part;
  }
  if (!done) return std::unexpected(done.error());
  shared.request.prepared = true;
  return RegionPart{};
}

Result<std::shared_ptr<MrImpl>> DaemonPd::register_memory(void* address, std::size_t length, uint64_t base,
                                                          AccessFlags access) {
  auto shared = share(address, length, base, access);
  if (!shared) return std::unexpected(shared.error());
  std::unique_lock<std::mutex> preparing;
  auto last = prepare(*shared, preparing);
  if (!last) return std::unexpected(last.error());
  shared->request.segments = std::move(last->segments);
  auto reply = link_->call<message::RegisterMemoryReply>(Op::register_memory, shared->request, last->fds);
  if (!reply) return std::unexpected(reply.error());
  auto mr = region_of(*reply);
  mr->range = std::move(shared->range);
  mr->base = base;
  mr->address = address;
  mr->length = length;
  return mr;
}

std::shared_ptr<MrImpl> DaemonPd::region_of(const message::RegisterMemoryReply& reply) const {
  auto mr = std::make_shared<MrImpl>();
  mr->object = std::make_shared<DaemonObject>(link_, Kind::mr, reply.id);
  mr->windows = [link = link_, id = reply.id]() -> Result<uint32_t> {
    auto count = link->call<message::WindowCount>(Op::count_windows, message::Handle{id});
    if (!count) return std::unexpected(count.error());
    return count->bound;
  };
  mr->key = reply.key;
  return mr;
}

Result<void> DaemonPd::reregister(MrImpl& mr, void* address, std::size_t length, uint64_t base, AccessFlags access) {
  auto shared = share(address, length, base, access);
  if (!shared) return std::unexpected(shared.error());
  std::unique_lock<std::mutex> preparing;
  auto last = prepare(*shared, preparing);
  if (!last) return std::unexpected(last.error());
  message::ReregisterMemory request{.region = id_of(mr.object), .now = std::move(shared->request)};
  request.now.segments = std::move(last->segments);
  auto done = link_->call<message::Empty>(Op::reregister_memory, request, last->fds);
  if (!done) return std::unexpected(done.error());
  mr.range = std::move(shared->range);
  return {};
}

}  // namespace uroce::client
