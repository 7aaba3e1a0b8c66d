#include "client/daemon_srq.h"

#include <utility>

#include "client/daemon_object.h"

namespace uroce::client {

Result<std::shared_ptr<SrqImpl>> publish_srq(ContextImpl& context, const std::shared_ptr<DeviceLink>& link,
                                             Result<message::CreateSrqReply> reply, std::vector<Object> uses,
                                             bool xrc) {
  if (!reply) return std::unexpected(reply.error());
  SrqParts parts{.object = std::make_shared<DaemonObject>(link, message::Kind::srq, reply->id, std::move(uses)),
                 .id = reply->number,
                 .max_sge = reply->max_sge};
  auto memory = link->memory(reply->place);
  if (!memory) return std::unexpected(memory.error());
  parts.place = queues::SrqPlace::at(*memory, reply->max_wr, reply->max_sge, xrc);
  parts.abandoned = std::make_shared<AbandonedRing>(parts.place.ring, AbandonedRing::Holds::receives, parts.place.held);
  parts.resize = [link, id = reply->id, max_sge = reply->max_sge, xrc](uint32_t wanted) -> Result<queues::SrqPlace> {
    auto resized = link->call<message::ResizeSrqReply>(message::Op::resize_srq, message::ResizeSrq{id, wanted});
    if (!resized) return std::unexpected(resized.error());
    auto moved_to = link->memory(resized->place);
    if (!moved_to) return std::unexpected(moved_to.error());
    return queues::SrqPlace::at(*moved_to, resized->max_wr, max_sge, xrc);
  };
  return std::make_shared<SrqImpl>(context, std::move(parts));
}

}  // namespace uroce::client
