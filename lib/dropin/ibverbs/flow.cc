#include "dropin/ibverbs/flow.h"

#include <endian.h>

#include <algorithm>
#include <cstring>

#include "dropin/common/foreign_enum.h"
#include "dropin/ibverbs/counters.h"
#include "dropin/ibverbs/rss.h"
#include "dropin/ibverbs/verbs_flow.h"

namespace uroce::dropin {

namespace {

/// One side of a rule, its values or its masks, filled from the same side of each specification.
void take(const ibv_flow_eth_filter& from, FlowFields& to) {
  std::ranges::copy(from.dst_mac, to.eth_destination.bytes.begin());
  std::ranges::copy(from.src_mac, to.eth_source.bytes.begin());
  to.eth_type = be16toh(from.ether_type);
  to.vlan_tag = be16toh(from.vlan_tag);
}
void take(const ibv_flow_ipv4_filter& from, FlowFields& to) {
  to.ip_source = Gid::from_ipv4(be32toh(from.src_ip));
  to.ip_destination = Gid::from_ipv4(be32toh(from.dst_ip));
}
void take(const ibv_flow_ipv4_ext_filter& from, FlowFields& to) {
  take(ibv_flow_ipv4_filter{from.src_ip, from.dst_ip}, to);
  to.ip_protocol = from.proto;
  to.traffic_class = from.tos;
  to.hop_limit = from.ttl;
  to.ipv4_flags = from.flags;
}
void take(const ibv_flow_ipv6_filter& from, FlowFields& to) {
  std::ranges::copy(from.src_ip, to.ip_source.bytes.begin());
  std::ranges::copy(from.dst_ip, to.ip_destination.bytes.begin());
  to.flow_label = be32toh(from.flow_label) & 0xfffff;
  to.ip_protocol = from.next_hdr;
  to.traffic_class = from.traffic_class;
  to.hop_limit = from.hop_limit;
}
void take(const ibv_flow_tcp_udp_filter& from, FlowFields& to) {
  to.source_port = be16toh(from.src_port);
  to.destination_port = be16toh(from.dst_port);
}

/// 0, or EINVAL for a size that is not the specification's. It may be unaligned in the program's buffer.
template <class Spec>
int take_spec(const std::byte* at, std::size_t size, FlowRule& rule, FlowLayers layer) {
  if (size != sizeof(Spec)) return EINVAL;
  Spec spec;
  std::memcpy(&spec, at, sizeof spec);
  rule.layers |= layer;
  take(spec.val, rule.value);
  take(spec.mask, rule.mask);
  return 0;
}

/// 0, EINVAL or EOPNOTSUPP.
int take_any(uint32_t type, const std::byte* at, std::size_t size, FlowRule& rule) {
  switch (type) {
    case IBV_FLOW_SPEC_ETH: return take_spec<ibv_flow_spec_eth>(at, size, rule, {});
    case IBV_FLOW_SPEC_IPV4: return take_spec<ibv_flow_spec_ipv4>(at, size, rule, FlowLayer::ipv4);
    case IBV_FLOW_SPEC_IPV4_EXT: return take_spec<ibv_flow_spec_ipv4_ext>(at, size, rule, FlowLayer::ipv4);
    case IBV_FLOW_SPEC_IPV6: return take_spec<ibv_flow_spec_ipv6>(at, size, rule, FlowLayer::ipv6);
    case IBV_FLOW_SPEC_TCP: return take_spec<ibv_flow_spec_tcp_udp>(at, size, rule, FlowLayer::tcp);
    case IBV_FLOW_SPEC_UDP: return take_spec<ibv_flow_spec_tcp_udp>(at, size, rule, FlowLayer::udp);
    default:
      return refuse(EOPNOTSUPP,
                    "ibv_create_flow(): only ETH, IPV4, IPV4_EXT, IPV6, TCP and UDP specifications and the actions TAG "
                    "and COUNT are "
                    "offered");
  }
}

/// 0 or EINVAL.
int take_counters(const std::byte* at, std::size_t size, VerbsCounters*& counters) {
  ibv_flow_spec_counter_action action;
  if (size != sizeof action) return EINVAL;
  std::memcpy(&action, at, sizeof action);
  if (check_live(action.counters, EINVAL) != 0) return EINVAL;
  counters = of(action.counters);
  return 0;
}

/// 0 or EINVAL.
int take_tag(const std::byte* at, std::size_t size, uint32_t& tag) {
  ibv_flow_spec_action_tag action;
  if (size != sizeof action) return EINVAL;
  std::memcpy(&action, at, sizeof action);
  tag = action.tag_id;
  return 0;
}

/// One bit for each layer of headers and each action: 0x20 is Ethernet, 0x30 IP, 0x40 ports, 0x1000 the first action.
uint32_t kind_bit(uint32_t type) {
  constexpr uint32_t kActions = IBV_FLOW_SPEC_ACTION_TAG;
  return 1u << (type >= kActions ? 8 + (type & 7) : type >> 4 & 7);
}

/// The specifications follow the attributes without gaps. Each layer and each action may be there once.
int to_rule(const ibv_flow_attr& attr, FlowRule& rule, VerbsCounters*& counters) {
  if (attr.comp_mask != 0 || attr.port != 1) return EINVAL;
  if (attr.flags != 0) return refuse(EOPNOTSUPP, "ibv_create_flow(): no flags are offered");
  rule.type = to_api<FlowType>(number_of(attr.type));
  rule.priority = attr.priority;
  const auto* at = reinterpret_cast<const std::byte*>(&attr + 1);
  uint32_t seen = 0;
  for (uint32_t left = attr.num_of_specs; left > 0; --left) {
    decltype(ibv_flow_spec::hdr) header;
    std::memcpy(&header, at, sizeof header);
    const uint32_t type = number_of(header.type);
    const int error = type == IBV_FLOW_SPEC_ACTION_COUNT ? take_counters(at, header.size, counters)
                      : type == IBV_FLOW_SPEC_ACTION_TAG ? take_tag(at, header.size, rule.tag)
                                                         : take_any(type, at, header.size, rule);
    if (error != 0) return error;
    const uint32_t kind = kind_bit(type);
    if ((seen & kind) != 0) return EINVAL;
    seen |= kind;
    at += header.size;
  }
  return 0;
}

}  // namespace

ibv_flow* create_flow(ibv_qp* qp, ibv_flow_attr* attr) {
  if (check_live(qp, EINVAL) != 0) return nullptr;
  FlowRule rule;
  if (number_of(attr->type) > UINT8_MAX) return failed_null(EINVAL);
  VerbsCounters* counters = nullptr;
  if (const int error = to_rule(*attr, rule, counters); error != 0) return failed_null(error);
  const auto& rss = of(qp)->rss;
  auto made = rss ? create_rss_flow(of(qp->context)->api, *rss, rule) : of(qp)->api.create_flow(rule);
  if (!made) return report_null(made.error());
  auto* flow = new VerbsFlow(of(qp), std::move(*made));
  if (counters != nullptr) bind_counters(*counters, *flow);
  return flow;
}

int destroy_flow(ibv_flow* flow) {
  if (const int error = check_live(flow, ENOENT); error != 0) return error;
  unbind_counters(*static_cast<VerbsFlow*>(flow));
  delete static_cast<VerbsFlow*>(flow);
  return 0;
}

}  // namespace uroce::dropin
