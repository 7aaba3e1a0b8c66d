#include "service/object_operations.h"

#include "control/address_handle.h"
#include "control/cq.h"
#include "control/cq_channel.h"
#include "control/flow.h"
#include "control/region.h"
#include "control/srq.h"
#include "service/memory_operations.h"
#include "service/place_of.h"

namespace uroce::service {

Result<Reply> create_pd(ClientState& client, const message::Empty& /*request*/) {
  auto charge = client.charge(Resource::pd);
  if (!charge) return std::unexpected(charge.error());
  auto pd = client.session->create_pd();
  if (!pd) return std::unexpected(pd.error());
  return reply(client, message::Handle{client.pds.add(std::move(*pd), std::move(*charge))});
}

Result<Reply> create_channel(ClientState& client, const message::Empty& /*request*/) {
  auto charge = client.charge(Resource::descriptor, kDescriptorsOfChannel);
  if (!charge) return std::unexpected(charge.error());
  auto channel = client.session->create_channel();
  if (!channel) return std::unexpected(channel.error());
  const int fd = (*channel)->fd();
  auto out = reply(client, message::Handle{client.channels.add(std::move(*channel), std::move(*charge))});
  out->fds.push_back(fd);
  return out;
}

Result<Reply> create_cq(ClientState& client, const message::CreateCq& request) {
  auto charge = client.charge(Resource::cq);
  if (!charge) return std::unexpected(charge.error());
  std::shared_ptr<control::CqChannel> channel;
  if (request.channel != 0) {
    auto found = client.channels.find(request.channel);
    if (!found) return std::unexpected(found.error());
    channel = std::move(*found);
  }
  const auto overrun = request.ignore_overrun ? transport::CqOverrun::ignored : transport::CqOverrun::fails;
  auto cq = client.session->create_cq(request.entries, std::move(channel), overrun);
  if (!cq) return std::unexpected(cq.error());
  message::CreateCqReply answer{.number = (*cq)->id(),
                                .entries = (*cq)->entries(),
                                .rings = (*cq)->rings(),
                                .header = place_of((*cq)->header_memory()),
                                .ring_place = place_of((*cq)->ring_memory())};
  answer.id = client.cqs.add(std::move(*cq), std::move(*charge));
  return reply(client, answer);
}

Result<Reply> resize_cq(ClientState& client, const message::ResizeCq& request) {
  auto cq = client.cqs.find(request.cq);
  if (!cq) return std::unexpected(cq.error());
  if (auto resized = (*cq)->resize(request.entries); !resized) return std::unexpected(resized.error());
  return reply(client,
               message::ResizeCqReply{.entries = (*cq)->entries(), .ring_place = place_of((*cq)->ring_memory())});
}

Result<Reply> moderate_cq(ClientState& client, const message::ModerateCq& request) {
  auto cq = client.cqs.find(request.cq);
  if (!cq) return std::unexpected(cq.error());
  if (auto moderated = (*cq)->moderate(request.count, request.period_us); !moderated)
    return std::unexpected(moderated.error());
  return Reply{};
}

Result<Reply> create_srq(ClientState& client, const message::CreateSrq& request) {
  return create_srq_of(client, request, {});
}

Result<Reply> create_srq_of(ClientState& client, const message::CreateSrq& request,
                            control::DeviceSession::XrcQueue xrc) {
  auto charge = client.charge(Resource::srq);
  if (!charge) return std::unexpected(charge.error());
  auto pd = client.pds.find(request.pd);
  if (!pd) return std::unexpected(pd.error());
  auto srq = client.session->create_srq(std::move(*pd), request.max_wr, request.max_sge, std::move(xrc));
  if (!srq) return std::unexpected(srq.error());
  message::CreateSrqReply answer{.number = (*srq)->id(),
                                 .max_wr = (*srq)->max_wr(),
                                 .max_sge = (*srq)->max_sge(),
                                 .place = place_of((*srq)->memory())};
  answer.id = client.srqs.add(std::move(*srq), std::move(*charge));
  return reply(client, answer);
}

Result<Reply> resize_srq(ClientState& client, const message::ResizeSrq& request) {
  auto srq = client.srqs.find(request.srq);
  if (!srq) return std::unexpected(srq.error());
  if (auto resized = (*srq)->resize(request.max_wr); !resized) return std::unexpected(resized.error());
  return reply(client, message::ResizeSrqReply{.max_wr = (*srq)->max_wr(), .place = place_of((*srq)->memory())});
}

Result<Reply> create_address_handle(ClientState& client, const message::CreateAddressHandle& request) {
  auto charge = client.charge(Resource::ah);
  if (!charge) return std::unexpected(charge.error());
  auto pd = client.pds.find(request.pd);
  if (!pd) return std::unexpected(pd.error());
  auto handle = client.session->create_address_handle(std::move(*pd), request.av);
  if (!handle) return std::unexpected(handle.error());
  const uint32_t number = (*handle)->id();
  const uint32_t id = client.address_handles.add(std::move(*handle), std::move(*charge));
  return reply(client, message::CreateAddressHandleReply{.id = id, .number = number});
}

Result<Reply> destroy(ClientState& client, const message::Destroy& request) {
  const auto gone = [](auto taken) -> Result<Reply> {
    if (!taken) return std::unexpected(taken.error());
    taken->reset();  // waits for the engines where it must
    return Reply{};
  };
  switch (request.kind) {
    case message::Kind::pd: return gone(client.pds.take(request.id));
    case message::Kind::mr: return gone(take_region(client, request.id));
    case message::Kind::channel: return gone(client.channels.take(request.id));
    case message::Kind::cq: return gone(client.cqs.take(request.id));
    case message::Kind::srq: return gone(client.srqs.take(request.id));
    case message::Kind::qp: {
      // The connection manager may be connecting it.
      const auto& manager = client.program.connections;
      const auto lock = manager != nullptr ? manager->keep_queue_pairs() : std::unique_lock<std::mutex>();
      return gone(client.qps.take(request.id));
    }
    case message::Kind::address_handle: return gone(client.address_handles.take(request.id));
    case message::Kind::window: return gone(client.windows.take(request.id));
    case message::Kind::flow: return gone(client.flows.take(request.id));
    case message::Kind::xrc_domain: return gone(client.xrc_domains.take(request.id));
    case message::Kind::cm_id: break;
  }
  return fail(EINVAL,
              fmt::format("unknown kind of object {}; it must be 1 to 9, or 12", static_cast<uint32_t>(request.kind)));
}

}  // namespace uroce::service
