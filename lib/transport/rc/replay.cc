#include "transport/rc/replay.h"

#include <algorithm>

namespace uroce::transport {
namespace {

const Resource* find_resource(const Qp& qp, Psn psn, bool atomic) {
  for (const Resource& resource : qp.cold->replay.resources()) {
    const int32_t offset = distance(psn, resource.first_psn);
    if (resource.packets != 0 && resource.atomic == atomic && offset >= 0 &&
        offset < static_cast<int32_t>(resource.packets)) {
      return &resource;
    }
  }
  return nullptr;
}

// Queues packets [next, end) of the response again, or extends a job that is queued for it already.
Outcome replay(Qp& qp, const Resource& resource, uint32_t next, uint32_t end) {
  ReplayStore& store = qp.cold->replay;
  const uint32_t index = store.index_of(resource);
  const bool covered = store.find_job([&](ResponseJob& job) {
    if (job.resource != index) return false;
    // The packets asked for have all been sent, so they need a job of their own.
    if (!resource.atomic && end <= job.next) return false;
    // A job that has not come to `next` yet, and goes on to `end`, covers the duplicate. Otherwise it begins at `next`.
    if (!resource.atomic && (job.next > next || job.end < end)) {
      job.next = next;
      job.end = std::max(job.end, end);
      job.at_start = true;
    }
    return true;
  });
  if (covered || !store.has_room_for_duplicate()) return {};
  store.push_job(resource, next, end, false);
  qp.rx.has_jobs = true;
  return Outcome::wake();
}

}  // namespace

Outcome replay_response(Context& ctx, Qp& qp, const wire::Packet& packet) {
  const Psn psn = packet.bth.psn;
  const bool atomic = packet.op().flags.has(wire::Op::atomic);
  const Resource* resource = find_resource(qp, psn, atomic);
  if (resource == nullptr) {
    ctx.count_drop(wire::Drop::resources_gone);
    return {};
  }
  if (atomic) return replay(qp, *resource, 0, 1);
  // FLUSH and ATOMIC WRITE are not run again: other requests may have written the same bytes since.
  if (packet.op().flags.has_any(wire::Op::flush | wire::Op::atomic_write)) {
    if (resource->length == 0) return replay(qp, *resource, 0, 1);
    ctx.count_drop(wire::Drop::resources_gone);
    return {};
  }
  // 9.7.5.1.2: a duplicate READ may ask for a part of the original. Its address must agree with its PSN, and its length
  // must stay within the original.
  const uint32_t offset_packets = static_cast<uint32_t>(distance(psn, resource->first_psn));
  const uint64_t offset = uint64_t{offset_packets} << qp.mtu_shift;
  const wire::Reth& reth = packet.reth;
  if (reth.rkey != resource->rkey || reth.va != resource->va + offset || reth.length > resource->length - offset) {
    ctx.count_drop(wire::Drop::resources_gone);
    return {};
  }
  const uint32_t packets = qp.packets_of(reth.length);
  return replay(qp, *resource, offset_packets, offset_packets + packets);
}

}  // namespace uroce::transport
