// The replay store: READs and atomics that were answered, kept so that a duplicate is answered the same way
// (IBTA vol. 1, 9.7.5.1.2 and table 46).
#include "transport/engine_core.h"

namespace uroce::transport {

using wire::Op;

Resource* new_resource(Qp& qp) {
  QpCold& cold = *qp.cold;
  if (cold.resources.empty()) return nullptr;
  Resource& resource = cold.resources[cold.resource_next];
  if (resource.busy) return nullptr;
  // A replay of what the slot held is given up with it: the peer has moved on by more than was agreed.
  for (uint32_t at = cold.jobs_head; at != cold.jobs_tail; ++at) {
    ResponseJob& job = cold.jobs[at & (cold.jobs.size() - 1)];
    if (job.resource == cold.resource_next) job.resource = ResponseJob::kVoid;
  }
  if (++cold.resource_next == cold.resources.size()) cold.resource_next = 0;
  resource = Resource{};
  resource.busy = true;
  return &resource;
}

void push_job(EngineCore& core, Qp& qp, const Resource& resource, uint32_t next, uint32_t end, bool original) {
  QpCold& cold = *qp.cold;
  ResponseJob& job = cold.jobs[cold.jobs_tail++ & (cold.jobs.size() - 1)];
  job = {static_cast<uint32_t>(&resource - cold.resources.data()), next, end, true, original};
  qp.rx.has_jobs = true;
  core.activate(qp);
}

namespace {

Resource* find_resource(Qp& qp, Psn psn, bool atomic) {
  for (Resource& resource : qp.cold->resources) {
    const int32_t offset = distance(psn, resource.first_psn);
    if (resource.packets != 0 && resource.atomic == atomic && offset >= 0 &&
        offset < static_cast<int32_t>(resource.packets)) {
      return &resource;
    }
  }
  return nullptr;
}

// Answers a READ or atomic again: from where the duplicate asks, in place of what was still queued for it.
void replay(EngineCore& core, Qp& qp, const Resource& resource, uint32_t next, uint32_t end) {
  QpCold& cold = *qp.cold;
  const uint32_t index = static_cast<uint32_t>(&resource - cold.resources.data());
  for (uint32_t at = cold.jobs_head; at != cold.jobs_tail; ++at) {
    ResponseJob& job = cold.jobs[at & (cold.jobs.size() - 1)];
    if (job.resource != index) continue;
    // What has been sent is sent again beside what is still to come.
    if (!resource.atomic && end <= job.next) continue;
    // An answer still under way covers the duplicate when it has not come that far.
    if (!resource.atomic && (job.next > next || job.end < end)) {
      job.next = next;
      job.end = std::max(job.end, end);
      job.at_start = true;
    }
    return;
  }
  if (cold.jobs_tail - cold.jobs_head < cold.jobs.size() - cold.resources.size())
    push_job(core, qp, resource, next, end, false);
}

// What an ACK of a duplicate SEND or WRITE at `psn` acknowledges: everything executed (C9-105), but nothing from the
// next READ or atomic on. Its answer may be lost, and an ACK is none; Linux rxe takes it for one when the PSN is the
// same, and completes a READ whose data never came.
Psn acknowledged_with(const Qp& qp, Psn psn) {
  Psn newest = qp.rx.expected - 1;
  for (const Resource& resource : qp.cold->resources) {
    const bool between = distance(resource.first_psn, psn) > 0 && distance(newest, resource.first_psn) >= 0;
    if (resource.packets != 0 && between) newest = resource.first_psn - 1;
  }
  return newest;
}

}  // namespace

// 9.7.5.1.2 and table 46: nothing is executed twice.
void on_duplicate(EngineCore& core, Qp& qp, const wire::Packet& packet) {
  core.count_drop(wire::Drop::psn_duplicate);
  const wire::OpFlags op = packet.op().flags;
  const Psn psn = packet.bth.psn;
  if (!op.has_any(wire::OpFlags(Op::read) | Op::atomic)) {
    queue_reply(core, qp, acknowledged_with(qp, psn), wire::Aeth::ack(0));
    return;
  }
  const Resource* resource = find_resource(qp, psn, op.has(Op::atomic));
  if (resource == nullptr) {
    core.count_drop(wire::Drop::resources_gone);
    return;
  }
  if (resource->atomic) {
    replay(core, qp, *resource, 0, 1);
    return;
  }
  // 9.7.5.1.2: a duplicate READ may ask for a part of the original; it must lie within it and start at its PSN.
  const uint32_t offset_packets = static_cast<uint32_t>(distance(psn, resource->first_psn));
  const uint64_t offset = uint64_t{offset_packets} << qp.mtu_shift;
  const wire::Reth& reth = packet.reth;
  if (reth.rkey != resource->rkey || reth.va != resource->va + offset || reth.length > resource->length - offset) {
    core.count_drop(wire::Drop::resources_gone);
    return;
  }
  const uint32_t packets = reth.length == 0 ? 1 : (reth.length + qp.mtu() - 1) >> qp.mtu_shift;
  replay(core, qp, *resource, offset_packets, offset_packets + packets);
}

}  // namespace uroce::transport
