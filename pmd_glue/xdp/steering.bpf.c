// The XDP program of a net_af_xdp port: which received frames go to its sockets. The kernel keeps all others.
//
// The driver loads the first program of the object, attaches it to the interface, and enters its sockets into xsks_map
// (DPDK's guide of net_af_xdp, "xdp_prog"). A queue without a socket keeps its frames, too.
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

enum { kRocePort = 4791, kMaxQueues = 256, kIpv4Fragment = 0x3fff, kVlanId = 0xfff };

struct {
  __uint(type, BPF_MAP_TYPE_XSKMAP);
  __type(key, __u32);
  __type(value, __u32);
  __uint(max_entries, kMaxQueues);
} xsks_map SEC(".maps");

#ifndef WHOLE_INTERFACE

struct tag {
  __be16 tci;
  __be16 type;
};

// Not inlined, so that IPv4 and IPv6 do not share code that adds an unknown offset: that needs CAP_PERFMON.
static __attribute__((noinline)) int is_roce_port(const void* at, const void* end) {
  const struct udphdr* udp = at;
  return (const void*)(udp + 1) <= end && udp->dest == bpf_htons(kRocePort);
}

// Without options: RoCEv2 has none (IBTA vol. 1, A17.3.1).
static __always_inline int is_roce_ipv4(const void* at, const void* end) {
  const struct iphdr* ip = at;
  if ((const void*)(ip + 1) > end || ip->version != 4 || ip->ihl != 5 || ip->protocol != IPPROTO_UDP) return 0;
  if (ip->frag_off & bpf_htons(kIpv4Fragment)) return 0;
  return is_roce_port(ip + 1, end);
}

static __always_inline int is_roce_ipv6(const void* at, const void* end) {
  const struct ipv6hdr* ip = at;
  if ((const void*)(ip + 1) > end || ip->version != 6 || ip->nexthdr != IPPROTO_UDP) return 0;
  return is_roce_port(ip + 1, end);
}

static __always_inline int is_roce(const void* at, const void* end) {
  const struct ethhdr* ethernet = at;
  if ((const void*)(ethernet + 1) > end) return 0;
  __be16 type = ethernet->h_proto;
  at = ethernet + 1;
  if (type == bpf_htons(ETH_P_8021Q)) {
    // A tag with an id belongs to another interface, which the kernel has for that VLAN.
    const struct tag* tag = at;
    if ((const void*)(tag + 1) > end || tag->tci & bpf_htons(kVlanId)) return 0;
    type = tag->type;
    at = tag + 1;
  }
  if (type == bpf_htons(ETH_P_IP)) return is_roce_ipv4(at, end);
  if (type == bpf_htons(ETH_P_IPV6)) return is_roce_ipv6(at, end);
  return 0;
}

#endif

SEC("xdp")
int uroce_steering(struct xdp_md* frame) {
#ifndef WHOLE_INTERFACE
  if (!is_roce((const void*)(long)frame->data, (const void*)(long)frame->data_end)) return XDP_PASS;
#endif
  return bpf_redirect_map(&xsks_map, frame->rx_queue_index, XDP_PASS);
}

// Without the GPL the kernel refuses a program some helpers, but not bpf_redirect_map().
char steering_license[] SEC("license") = "BSD-3-Clause";
