#include "dropin/ibverbs/counters.h"

#include <algorithm>

#include "dropin/common/foreign_enum.h"
#include "dropin/ibverbs/verbs_flow.h"

namespace uroce::dropin {

namespace {

uint64_t value_of(const FlowCounters& counted, ibv_counter_description what) {
  return what == IBV_COUNTER_PACKETS ? counted.packets : counted.bytes;
}

void use(VerbsCounters& counters, VerbsFlow& flow) {
  if (std::ranges::find(flow.counters, &counters) != flow.counters.end()) return;
  flow.counters.push_back(&counters);
  flow.of_counters.emplace_back(&counters.flows);
}

/// 0, or an errno value. The caller holds the lock.
int attach_to(VerbsCounters& counters, VerbsCounters::Point point, VerbsFlow& flow) {
  const auto now = flow.api.counters();
  if (!now) return report(now.error());
  point.sources = {{&flow, *now}};
  counters.points.push_back(std::move(point));
  use(counters, flow);
  return 0;
}

}  // namespace

ibv_counters* create_counters(ibv_context* context, ibv_counters_init_attr* attr) {
  if (attr->comp_mask != 0) return failed_null(EOPNOTSUPP);
  return new VerbsCounters(context);
}

int destroy_counters(ibv_counters* counters) {
  if (const int error = check_live(counters, EINVAL); error != 0) return error;
  if (of(counters)->flows.any()) return failed(EBUSY);
  delete of(counters);
  return 0;
}

int attach_counters_point_flow(ibv_counters* ibcounters, ibv_counter_attach_attr* attr, ibv_flow* flow) {
  if (const int error = check_live(ibcounters, EINVAL); error != 0) return error;
  if (attr->comp_mask != 0) return failed(EOPNOTSUPP);
  const auto what = number_of(attr->counter_desc);
  if (what != IBV_COUNTER_PACKETS && what != IBV_COUNTER_BYTES) return failed(ENOTSUP);
  VerbsCounters& counters = *of(ibcounters);
  const std::lock_guard lock(counters.mutex);
  VerbsCounters::Point point{
      .what = static_cast<ibv_counter_description>(what), .index = attr->index, .is_static = flow == nullptr};
  if (flow != nullptr) {
    if (const int error = check_live(flow, EINVAL); error != 0) return error;
    return attach_to(counters, std::move(point), *static_cast<VerbsFlow*>(flow));
  }
  if (counters.flows.any()) return refuse(EBUSY, "a rule uses these counters; attach all points before it is made");
  counters.points.push_back(std::move(point));
  return 0;
}

int read_counters(ibv_counters* ibcounters, uint64_t* values, uint32_t count, uint32_t flags) {
  if (const int error = check_live(ibcounters, EINVAL); error != 0) return error;
  if ((flags & ~uint32_t{IBV_READ_COUNTERS_ATTR_PREFER_CACHED}) != 0) return failed(EOPNOTSUPP);
  VerbsCounters& counters = *of(ibcounters);
  const std::lock_guard lock(counters.mutex);
  std::fill_n(values, count, 0);
  for (const VerbsCounters::Point& point : counters.points) {
    if (point.index >= count) continue;
    values[point.index] += point.past;
    for (const auto& [flow, before] : point.sources) {
      const auto now = flow->api.counters();
      if (!now) return report(now.error());
      values[point.index] += value_of(*now, point.what) - value_of(before, point.what);
    }
  }
  return 0;
}

void bind_counters(VerbsCounters& counters, VerbsFlow& flow) {
  const std::lock_guard lock(counters.mutex);
  for (VerbsCounters::Point& point : counters.points) {
    if (point.is_static) point.sources.push_back({&flow, {}});
  }
  use(counters, flow);
}

void unbind_counters(VerbsFlow& flow) {
  if (flow.counters.empty()) return;
  const FlowCounters last = flow.api.counters().value_or(FlowCounters{});
  for (VerbsCounters* counters : flow.counters) {
    const std::lock_guard lock(counters->mutex);
    for (VerbsCounters::Point& point : counters->points) {
      const auto source = std::ranges::find(point.sources, &flow, &VerbsCounters::Source::flow);
      if (source == point.sources.end()) continue;
      const uint64_t before = value_of(source->before, point.what);
      point.past += std::max(value_of(last, point.what), before) - before;
      point.sources.erase(source);
    }
  }
}

}  // namespace uroce::dropin
