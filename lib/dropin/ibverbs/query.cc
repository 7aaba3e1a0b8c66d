// Attributes of a device and its port (ibv_query_device(3), ibv_query_port(3), ibv_query_gid(3), ibv_query_pkey(3)).
#include "dropin/ibverbs/query.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <limits>

#include <uroce/version.h>

#include "dropin/ibverbs/identity.h"
#include "dropin/ibverbs/later_verbs.h"
#include "dropin/ibverbs/net_interface.h"

namespace uroce::dropin {

namespace {

constexpr uint8_t kWidth4x = 2;
constexpr uint8_t kSpeed25G = 32;
constexpr uint64_t kPortSpeed = 4 * 250;  // of that width and speed, in units of 100 Mb/s
constexpr uint8_t kPhysPolling = 2;
constexpr uint8_t kPhysLinkUp = 5;
constexpr uint32_t kGrhRequired = 1;
/// IB_UVERBS_DEVICE_FLUSH_GLOBAL and IB_UVERBS_DEVICE_ATOMIC_WRITE of the kernel, which rdma-core 44's headers do not
/// name.
constexpr uint64_t kFlushGlobal = uint64_t{1} << 38;
constexpr uint64_t kAtomicWrite = uint64_t{1} << 40;

int to_int(uint64_t value) {
  return static_cast<int>(std::min<uint64_t>(value, static_cast<uint64_t>(std::numeric_limits<int>::max())));
}

/// Entries of the GID table that may be asked for: kGidTable, or more where there are more addresses.
uint32_t gid_table_size(const std::vector<Gid>& gids) {
  return std::max(kGidTable, static_cast<uint32_t>(gids.size()));
}

void fill_limits(const DeviceInfo& info, ibv_device_attr& out) {
  out.max_qp = to_int(info.max_qp);
  out.max_qp_wr = to_int(info.max_qp_wr);
  out.max_sge = to_int(info.max_sge);
  out.max_sge_rd = out.max_sge;
  out.max_cq = to_int(info.max_cq);
  out.max_cqe = to_int(info.max_cqe);
  out.max_mr = to_int(info.max_mr);
  out.max_mw = to_int(info.max_mw);
  out.max_pd = to_int(info.max_pd);
  out.max_ah = to_int(info.max_ah);
  out.max_qp_rd_atom = to_int(info.max_rd_atomic);
  out.max_qp_init_rd_atom = out.max_qp_rd_atom;
  out.max_res_rd_atom = to_int(uint64_t{info.max_rd_atomic} * info.max_qp);
  out.max_srq = to_int(info.max_srq);
  out.max_srq_wr = to_int(info.max_qp_wr);
  out.max_srq_sge = out.max_sge;
  out.max_mcast_grp = to_int(info.max_multicast_attach);
  out.max_mcast_qp_attach = out.max_mcast_grp;
  out.max_total_mcast_qp_attach = out.max_mcast_grp;
  out.max_raw_ethy_qp = info.max_flow != 0 ? out.max_qp : 0;
}

ibv_device_attr attributes(const VerbsContext& context) {
  const DeviceInfo& info = context.info();
  ibv_device_attr out{};
  std::snprintf(out.fw_ver, sizeof(out.fw_ver), "%s", kVersion);
  out.node_guid = htobe64(guid_of(info.mac));
  out.sys_image_guid = out.node_guid;
  out.max_mr_size = std::numeric_limits<uint64_t>::max();
  out.page_size_cap = 0xffff'f000;  // every power of two from 4 KiB on
  out.vendor_id = kVendorId;
  out.vendor_part_id = kPartId;
  out.hw_ver = 1;
  out.device_cap_flags = IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_UD_AV_PORT_ENFORCE | IBV_DEVICE_PORT_ACTIVE_EVENT |
                         IBV_DEVICE_SYS_IMAGE_GUID | IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_MEM_MGT_EXTENSIONS |
                         IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B | IBV_DEVICE_SRQ_RESIZE | IBV_DEVICE_XRC;
  out.atomic_cap = IBV_ATOMIC_HCA;
  out.max_pkeys = 1;
  out.local_ca_ack_delay = 15;
  out.phys_port_cnt = 1;
  fill_limits(info, out);
  return out;
}

ibv_port_attr port_attributes(const VerbsContext& context) {
  const DeviceInfo& info = context.info();
  const bool up = context.api.link_up().value_or(false);
  ibv_port_attr out{};
  out.state = up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
  out.phys_state = up ? kPhysLinkUp : kPhysPolling;
  out.max_mtu = IBV_MTU_4096;
  out.active_mtu = static_cast<ibv_mtu>(info.active_mtu);
  out.gid_tbl_len = to_int(gid_table_size(context.gids()));
  out.pkey_tbl_len = 1;
  out.port_cap_flags = IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS;
  out.max_msg_sz = static_cast<uint32_t>(std::min<uint64_t>(info.max_message, uint64_t{1} << 31));
  out.max_vl_num = 1;
  // A software port has no lanes; programs want a width and a speed that exist.
  out.active_width = kWidth4x;
  out.active_speed = kSpeed25G;
  out.link_layer = IBV_LINK_LAYER_ETHERNET;
  out.flags = kGrhRequired;
  return out;
}

void fill_gid_entry(const Gid& gid, uint32_t index, uint32_t interface, ibv_gid_entry& out) {
  std::memcpy(out.gid.raw, gid.bytes.data(), sizeof(out.gid.raw));
  out.gid_index = index;
  out.port_num = 1;
  out.gid_type = IBV_GID_TYPE_ROCE_V2;
  out.ndev_ifindex = interface;
}

/// 0, EINVAL (no such port or index) or ENODATA (an empty entry; `gid` is then zero).
int find_gid(const VerbsContext& context, uint32_t port, uint32_t index, Gid& gid) {
  gid = {};
  const std::vector<Gid> gids = context.gids();
  if (port != 1 || index >= gid_table_size(gids)) return EINVAL;
  if (index < gids.size()) gid = gids[index];
  return gid == Gid{} ? ENODATA : 0;
}

}  // namespace

int query_port(ibv_context* context, uint8_t port, ibv_port_attr* out, std::size_t size) {
  if (port != 1) return failed(EINVAL);
  const ibv_port_attr attr = port_attributes(*of(context));
  std::memset(out, 0, size);
  std::memcpy(out, &attr, std::min(size, sizeof(attr)));
  return 0;
}

int query_device_ex(ibv_context* context, const ibv_query_device_ex_input* input, ibv_device_attr_ex* out,
                    std::size_t size) {
  if (input != nullptr && input->comp_mask != 0) return failed(EINVAL);
  if (size < sizeof(ibv_device_attr)) return failed(EINVAL);
  ibv_device_attr_ex attr{};
  attr.orig_attr = attributes(*of(context));
  attr.completion_timestamp_mask = std::numeric_limits<uint64_t>::max();
  attr.hca_core_clock = kClockKhz;
  attr.device_cap_flags_ex = attr.orig_attr.device_cap_flags | kFlushGlobal | kAtomicWrite;
  attr.cq_mod_caps = {std::numeric_limits<uint16_t>::max(), std::numeric_limits<uint16_t>::max()};
  attr.phys_port_cnt_ex = 1;
  constexpr uint32_t kMessages = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_SRQ_RECV;
  attr.odp_caps.general_caps = IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT;
  attr.odp_caps.per_transport_caps = {
      .rc_odp_caps = kMessages | IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC,
      .uc_odp_caps = kMessages | IBV_ODP_SUPPORT_WRITE,
      .ud_odp_caps = kMessages};
  attr.xrc_odp_caps = attr.odp_caps.per_transport_caps.rc_odp_caps;
  attr.packet_pacing_caps = {.qp_rate_limit_min = kMinRateLimit,
                             .qp_rate_limit_max = std::numeric_limits<uint32_t>::max(),
                             .supported_qpts = 1u << IBV_QPT_RC};
  if (const uint32_t rules = of(context)->info().max_flow; rules != 0) {
    attr.rss_caps = {.supported_qpts = 1u << IBV_QPT_RAW_PACKET,
                     .max_rwq_indirection_tables = rules,  // more are of no use
                     .max_rwq_indirection_table_size = kMaxIndirection,
                     .rx_hash_fields_mask = kRxHashFields,
                     .rx_hash_function = IBV_RX_HASH_FUNC_TOEPLITZ};
    attr.max_wq_type_rq = of(context)->info().max_qp;
  }
  attr.max_dm_size = of(context)->info().max_device_memory;
  std::memset(static_cast<void*>(out), 0, size);
  std::memcpy(static_cast<void*>(out), &attr, std::min(size, sizeof(attr)));
  return 0;
}

int query_gid_type(ibv_context* context, uint8_t port, unsigned index, uint32_t* type) {
  // rdma-core's enum ibv_gid_type_sysfs: 1 for RoCE v2, 0 for IB, RoCE v1 and empty entries.
  Gid found;
  const int fault = find_gid(*of(context), port, index, found);
  if (fault == EINVAL) {
    errno = fault;
    return -1;
  }
  *type = fault == 0 ? 1 : 0;
  return 0;
}

int later::query_port_speed(ibv_context* /*context*/, uint32_t port, uint64_t* speed) {
  if (port != 1) return failed(EINVAL);
  *speed = kPortSpeed;
  return 0;
}

int query_rt_values(ibv_context* context, ibv_values_ex* values) {
  if ((values->comp_mask & ~uint32_t{IBV_VALUES_MASK_RAW_CLOCK}) != 0) return failed(EINVAL);
  const auto now = of(context)->api.clock_ns();
  if (!now) return report(now.error());
  values->raw_clock = {static_cast<time_t>(*now / 1'000'000'000), static_cast<long>(*now % 1'000'000'000)};
  return 0;
}

}  // namespace uroce::dropin

using namespace uroce;
using namespace uroce::dropin;

extern "C" {

int ibv_query_device(ibv_context* context, ibv_device_attr* attr) {
  *attr = attributes(*of(context));
  return 0;
}

#undef ibv_query_port
/// The structure as it was before port_cap_flags2 was added.
int ibv_query_port(ibv_context* context, uint8_t port, _compat_ibv_port_attr* attr) {
  return query_port(context, port, reinterpret_cast<ibv_port_attr*>(attr), offsetof(ibv_port_attr, port_cap_flags2));
}

int ibv_query_gid(ibv_context* context, uint8_t port, int index, ibv_gid* gid) {
  Gid found;
  if (find_gid(*of(context), port, static_cast<uint32_t>(index), found) == EINVAL) {
    errno = EINVAL;
    return -1;
  }
  std::memcpy(gid->raw, found.bytes.data(), sizeof(gid->raw));
  return 0;
}

int _ibv_query_gid_ex(ibv_context* context, uint32_t port, uint32_t index, ibv_gid_entry* entry, uint32_t flags,
                      std::size_t size) {
  if (flags != 0 || size < sizeof(*entry)) return failed(EINVAL);
  Gid found;
  if (const int fault = find_gid(*of(context), port, index, found); fault != 0) return failed(fault);
  std::memset(entry, 0, size);
  fill_gid_entry(found, index, interface_index(of(context)->info()), *entry);
  return 0;
}

ssize_t _ibv_query_gid_table(ibv_context* context, ibv_gid_entry* entries, std::size_t max_entries, uint32_t flags,
                             std::size_t size) {
  const std::vector<Gid> gids = of(context)->gids();
  const auto count = static_cast<std::size_t>(std::ranges::count_if(gids, [](const Gid& gid) { return gid != Gid{}; }));
  if (flags != 0 || size < sizeof(*entries) || max_entries < count) return -EINVAL;
  const uint32_t interface = interface_index(of(context)->info());
  auto* at = reinterpret_cast<std::byte*>(entries);
  for (uint32_t i = 0; i < gids.size(); ++i) {
    if (gids[i] == Gid{}) continue;
    std::memset(at, 0, size);
    fill_gid_entry(gids[i], i, interface, *reinterpret_cast<ibv_gid_entry*>(at));
    at += size;
  }
  return static_cast<ssize_t>(count);
}

int ibv_query_pkey(ibv_context* /*context*/, uint8_t port, int index, __be16* pkey) {
  if (port != 1 || index != 0) {
    errno = EINVAL;
    return -1;
  }
  *pkey = htobe16(kDefaultPkey);
  return 0;
}

int ibv_get_pkey_index(ibv_context* /*context*/, uint8_t port, __be16 pkey) {
  if (port == 1 && pkey == htobe16(kDefaultPkey)) return 0;
  errno = EINVAL;
  return -1;
}

}  // extern "C"
