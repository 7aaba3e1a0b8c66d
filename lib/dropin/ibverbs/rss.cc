#include "dropin/ibverbs/rss.h"

#include <algorithm>
#include <bit>

#include "dropin/common/foreign_enum.h"
#include "dropin/ibverbs/qp.h"

namespace uroce::dropin {

namespace {

/// 0, or an errno value.
int to_rx_hash(const ibv_rx_hash_conf& from, RxHash& to) {
  if (from.rx_hash_function != IBV_RX_HASH_FUNC_TOEPLITZ) return refuse(EOPNOTSUPP, "the hash must be Toeplitz");
  if (from.rx_hash_key_len != to.key.size() || from.rx_hash_key == nullptr) {
    return refuse(EINVAL, "the key of the Toeplitz hash must have 40 bytes");
  }
  if (from.rx_hash_fields_mask > kRxHashFields) {
    return refuse(EOPNOTSUPP, "hashes are of addresses and ports of the outer headers, not of IPsec or a tunnel");
  }
  to.fields = RxHashFields::from_bits(static_cast<uint32_t>(from.rx_hash_fields_mask));
  std::ranges::copy(std::span(from.rx_hash_key, to.key.size()), to.key.begin());
  return 0;
}

}  // namespace

ibv_rwq_ind_table* create_rwq_ind_table(ibv_context* context, ibv_rwq_ind_table_init_attr* attr) {
  if (attr->comp_mask != 0) return failed_null(EOPNOTSUPP);
  if (attr->log_ind_tbl_size > std::bit_width(kMaxIndirection) - 1) {
    return refuse_null(EINVAL, "an indirection table has at most 256 entries");
  }
  std::vector<VerbsWq*> wqs;
  for (ibv_wq* wq : std::span(attr->ind_tbl, std::size_t{1} << attr->log_ind_tbl_size)) {
    if (check_live(wq, EINVAL) != 0) return nullptr;
    wqs.push_back(of(wq));
  }
  return new VerbsIndTable(context, std::move(wqs));
}

int destroy_rwq_ind_table(ibv_rwq_ind_table* table) {
  if (const int error = check_live(table, ENOENT); error != 0) return error;
  if (of(table)->users.any()) return failed(EBUSY);
  delete of(table);
  return 0;
}

// The queue pair has queues of the API that nobody uses, and through them a number of its own.
ibv_qp* create_rss_qp(ibv_context* context, ibv_qp_init_attr_ex& attr) {
  constexpr uint32_t kNeeded = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_RX_HASH | IBV_QP_INIT_ATTR_IND_TABLE;
  if ((attr.comp_mask & ~(kNeeded | IBV_QP_INIT_ATTR_CREATE_FLAGS)) != 0) return failed_null(EOPNOTSUPP);
  if ((attr.comp_mask & kNeeded) != kNeeded || attr.pd == nullptr || number_of(attr.qp_type) != IBV_QPT_RAW_PACKET ||
      attr.send_cq != nullptr || attr.recv_cq != nullptr || attr.srq != nullptr) {
    return refuse_null(EINVAL,
                       "an RSS queue pair is of type IBV_QPT_RAW_PACKET, with a domain, a hash and a table of "
                       "WQs, and without queues of its own");
  }
  if ((attr.comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) != 0 && attr.create_flags != 0) return failed_null(EOPNOTSUPP);
  if (check_live(attr.pd, EINVAL) != 0 || check_live(attr.rwq_ind_tbl, EINVAL) != 0) return nullptr;
  RxHash hash;
  if (to_rx_hash(attr.rx_hash_conf, hash) != 0) return nullptr;
  VerbsIndTable* const table = of(attr.rwq_ind_tbl);
  VerbsCq* const cq = of(table->wqs[0]->cq);
  auto made =
      of(context)->api.create_qp(of(attr.pd)->domain(), cq->api, cq->api, {.type = QpType::raw_packet, .cap = {}});
  if (!made) return report_null(made.error());
  auto* qp = make_in<VerbsQp>(of(attr.pd), of(attr.pd), std::move(*made), cq, cq, nullptr);
  if (qp == nullptr) return nullptr;
  qp->rss = std::make_shared<ReceiveScaling>(table, hash);
  qp->qp_base.pd = attr.pd;
  attr.cap = {};
  return &publish_qp(qp, context, attr.qp_type, attr.qp_context)->qp_base;
}

Result<Flow> create_rss_flow(Context& api, const ReceiveScaling& rss, const FlowRule& rule) {
  std::vector<const QueuePair*> table;
  for (const VerbsWq* wq : rss.table->wqs) table.push_back(&wq->api);
  return api.create_flow(table, rule, rss.hash);
}

}  // namespace uroce::dropin
