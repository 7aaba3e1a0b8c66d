#include "dropin/ibverbs/xrc.h"

#include <fcntl.h>

#include "dropin/common/foreign_enum.h"
#include "dropin/ibverbs/qp.h"
#include "dropin/ibverbs/srq.h"

namespace uroce::dropin {

namespace {

bool has_all(uint32_t mask, uint32_t wanted) { return (mask & wanted) == wanted; }

}  // namespace

ibv_xrcd* open_xrcd(ibv_context* context, ibv_xrcd_init_attr* attr) {
  if (attr->comp_mask >= IBV_XRCD_INIT_ATTR_RESERVED) {
    return refuse_null(EOPNOTSUPP, "ibv_open_xrcd(): comp_mask has bits of no known attribute");
  }
  if (!has_all(attr->comp_mask, IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS)) {
    return refuse_null(EINVAL, "ibv_open_xrcd(): fd or oflags is missing; set both, and their bits in comp_mask");
  }
  auto made = of(context)->api.open_xrc_domain(
      {.fd = attr->fd, .create = (attr->oflags & O_CREAT) != 0, .exclusive = (attr->oflags & O_EXCL) != 0});
  if (!made) return report_null(made.error());
  return new VerbsXrcd(context, std::move(*made));
}

int close_xrcd(ibv_xrcd* xrcd) {
  if (const int error = check_live(xrcd, EINVAL); error != 0) return error;
  if (of(xrcd)->users.any()) return failed(EBUSY);
  delete of(xrcd);
  return 0;
}

ibv_srq* create_xrc_srq(ibv_srq_init_attr_ex& attr) {
  constexpr uint32_t kNeeded = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
  if (!has_all(attr.comp_mask, kNeeded) || attr.pd == nullptr || attr.xrcd == nullptr || attr.cq == nullptr) {
    return refuse_null(EINVAL, "ibv_create_srq_ex(): an XRC queue needs pd, xrcd and cq, and their bits in comp_mask");
  }
  if (check_all_live(EINVAL, attr.pd, attr.xrcd, attr.cq) != 0) return nullptr;
  auto made = of(attr.pd->context)
                  ->api.create_xrc_srq(of(attr.pd)->domain(), of(attr.xrcd)->api, of(attr.cq)->api, attr.attr.max_wr,
                                       attr.attr.max_sge);
  if (!made) return report_null(made.error());
  return publish_srq(std::move(*made), {of(attr.pd), of(attr.xrcd), of(attr.cq)}, attr.srq_context, attr.attr);
}

ibv_qp* create_xrc_target(ibv_qp_init_attr_ex& attr) {
  if ((attr.comp_mask & ~uint32_t{IBV_QP_INIT_ATTR_XRCD | IBV_QP_INIT_ATTR_PD}) != 0) {
    return refuse_null(EOPNOTSUPP,
                       "ibv_create_qp_ex(): an XRC target takes xrcd alone; leave other bits out of comp_mask");
  }
  if (!has_all(attr.comp_mask, IBV_QP_INIT_ATTR_XRCD) || attr.xrcd == nullptr) {
    return refuse_null(EINVAL, "ibv_create_qp_ex(): an XRC target needs xrcd, and its bit in comp_mask");
  }
  if (check_live(attr.xrcd, EINVAL) != 0) return nullptr;
  auto made = of(attr.xrcd->context)->api.create_xrc_target(of(attr.xrcd)->api);
  if (!made) return report_null(made.error());
  attr.cap = {};
  return &publish_target(std::move(*made), *of(attr.xrcd), attr.qp_context)->qp_base;
}

ibv_qp* open_qp(ibv_context* context, ibv_qp_open_attr* attr) {
  constexpr uint32_t kNeeded = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
  if (attr->comp_mask >= IBV_QP_OPEN_ATTR_RESERVED) {
    return refuse_null(EOPNOTSUPP, "ibv_open_qp(): comp_mask has bits of no known attribute");
  }
  if (!has_all(attr->comp_mask, kNeeded) || attr->xrcd == nullptr || number_of(attr->qp_type) != IBV_QPT_XRC_RECV) {
    return refuse_null(EINVAL, "ibv_open_qp(): it opens XRC targets, and needs qp_num, xrcd and qp_type");
  }
  if (check_live(attr->xrcd, EINVAL) != 0) return nullptr;
  auto opened = of(context)->api.open_xrc_target(of(attr->xrcd)->api, attr->qp_num);
  if (!opened) return report_null(opened.error());
  void* const of_program = has_all(attr->comp_mask, IBV_QP_OPEN_ATTR_CONTEXT) ? attr->qp_context : nullptr;
  return &publish_target(std::move(*opened), *of(attr->xrcd), of_program)->qp_base;
}

}  // namespace uroce::dropin
