// Address handles and multicast (ibv_create_ah(3), ibv_create_ah_from_wc(3), ibv_attach_mcast(3)).
#include <endian.h>

#include <cstring>

#include "dropin/common/qp_attr.h"
#include "dropin/ibverbs/grh.h"
#include "dropin/ibverbs/objects.h"
#include "dropin/ibverbs/validation.h"

namespace uroce::dropin {

namespace {

Gid gid_of(const ibv_gid& raw) {
  Gid gid;
  std::memcpy(gid.bytes.data(), raw.raw, gid.bytes.size());
  return gid;
}

int code_of(const Result<void>& result) { return result ? 0 : report(result.error()); }

}  // namespace

}  // namespace uroce::dropin

using namespace uroce;
using namespace uroce::dropin;

extern "C" {

ibv_ah* ibv_create_ah(ibv_pd* pd, ibv_ah_attr* attr) {
  AddressVector av;
  if (const int error = convert(*attr, av); error != 0) return failed_null(error);
  if (check_live(pd, EINVAL) != 0) return nullptr;
  auto made = of(pd)->domain().create_address_handle(av);
  if (!made) return report_null(made.error());
  return new VerbsAh(of(pd), std::move(*made));
}

int ibv_destroy_ah(ibv_ah* ah) {
  if (const int error = check_live(ah, ENOENT); error != 0) return error;
  validation::will_go(*of(ah));
  delete of(ah);
  return 0;
}

int ibv_init_ah_from_wc(ibv_context* context, uint8_t port, ibv_wc* wc, ibv_grh* grh, ibv_ah_attr* attr) {
  *attr = {};
  attr->dlid = wc->slid;
  attr->sl = wc->sl;
  attr->src_path_bits = wc->dlid_path_bits;
  attr->port_num = port;
  if ((wc->wc_flags & IBV_WC_GRH) == 0) return 0;
  const auto route = route_back(*grh, of(context)->gids());
  if (!route) {
    errno = route.error().code;
    return -1;
  }
  attr->is_global = 1;
  attr->grh.flow_label = route->flow_label;
  std::memcpy(attr->grh.dgid.raw, route->dgid.bytes.data(), route->dgid.bytes.size());
  attr->grh.sgid_index = route->sgid_index;
  attr->grh.hop_limit = route->hop_limit;
  attr->grh.traffic_class = route->traffic_class;
  return 0;
}

ibv_ah* ibv_create_ah_from_wc(ibv_pd* pd, ibv_wc* wc, ibv_grh* grh, uint8_t port) {
  ibv_ah_attr attr{};
  if (ibv_init_ah_from_wc(pd->context, port, wc, grh, &attr) != 0) return nullptr;
  return ibv_create_ah(pd, &attr);
}

int ibv_attach_mcast(ibv_qp* qp, const ibv_gid* gid, uint16_t /*lid*/) {
  if (const int error = check_live(qp, EINVAL); error != 0) return error;
  const Gid group = gid_of(*gid);
  const int error = code_of(of(qp)->api.attach_multicast(group));
  const std::lock_guard lock(of(qp)->ref->shared->mutex);
  if (error == 0) of(qp)->groups.insert(group);
  return error;
}

int ibv_detach_mcast(ibv_qp* qp, const ibv_gid* gid, uint16_t /*lid*/) {
  if (const int error = check_live(qp, EINVAL); error != 0) return error;
  const Gid group = gid_of(*gid);
  const int error = code_of(of(qp)->api.detach_multicast(group));
  const std::lock_guard lock(of(qp)->ref->shared->mutex);
  of(qp)->groups.erase(group);  // without the daemon it is in no group, either
  return error;
}

int ibv_resolve_eth_l2_from_gid(ibv_context* context, ibv_ah_attr* attr, uint8_t eth_mac[ETHERNET_LL_SIZE],
                                uint16_t* vid) {
  AddressVector av;
  if (const int error = convert(*attr, av); error != 0) return -error;
  const auto mac = api::resolve(of(context)->api, av);
  if (!mac) return -report(mac.error());
  std::memcpy(eth_mac, mac->bytes.data(), ETHERNET_LL_SIZE);
  if (vid != nullptr) *vid = 0xffff;  // the daemon adds the port's VLAN, if it has one
  return 0;
}

}  // extern "C"
