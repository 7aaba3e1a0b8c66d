// Prints a device's GID table, and whether a new queue pair may have each entry. Written for libibverbs alone.
//
//   gids DEVICE COUNT
//
// A line is "GID connects" or "GID ERROR" for each of the first two entries, between commas: "::ffff:10.0.0.1 connects,
// none EINVAL". The first tells how it is at the beginning, and COUNT more how it is after each gid_change event.
#include <arpa/inet.h>
#include <infiniband/verbs.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

[[noreturn]] void die(const char* what) {
  std::perror(what);
  std::exit(1);
}

ibv_context* open_device(const char* name) {
  ibv_device** devices = ibv_get_device_list(nullptr);
  for (ibv_device** one = devices; one != nullptr && *one != nullptr; ++one) {
    if (std::strcmp(ibv_get_device_name(*one), name) == 0) return ibv_open_device(*one);
  }
  die(name);
}

/// Connects a queue pair from this entry to `peer`: 0, or an errno.
int connect(ibv_pd* pd, ibv_cq* cq, uint8_t index, const ibv_gid& peer) {
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = cq;
  init.cap = {1, 1, 1, 1, 0};
  init.qp_type = IBV_QPT_RC;
  ibv_qp* const qp = ibv_create_qp(pd, &init);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  if (qp == nullptr ||
      ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) != 0)
    die("INIT");
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = IBV_MTU_1024;
  attr.dest_qp_num = qp->qp_num;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.port_num = 1;
  attr.ah_attr.grh.dgid = peer;
  attr.ah_attr.grh.sgid_index = index;
  attr.ah_attr.grh.hop_limit = 64;
  const int error = ibv_modify_qp(qp, &attr,
                                  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                      IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  ibv_destroy_qp(qp);
  return error;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  constexpr int kEntries = 2;
  ibv_context* const context = open_device(argv[1]);
  ibv_pd* const pd = ibv_alloc_pd(context);
  ibv_cq* const cq = ibv_create_cq(context, 1, nullptr, nullptr, 0);
  ibv_gid peers[kEntries];
  for (int left = std::atoi(argv[2]), first = 1; left >= 0; --left, first = 0) {
    for (int i = 0; i < kEntries; ++i) {
      char text[INET6_ADDRSTRLEN] = "none";
      ibv_gid gid{};
      if (ibv_query_gid(context, 1, i, &gid) != 0) die("query");
      if (first != 0) peers[i] = gid;
      if (gid.global.interface_id != 0) inet_ntop(AF_INET6, gid.raw, text, sizeof text);
      const int error = connect(pd, cq, static_cast<uint8_t>(i), peers[i]);
      std::printf("%s%s %s", i == 0 ? "" : ", ", text, error == 0 ? "connects" : strerrorname_np(error));
    }
    std::printf("\n");
    std::fflush(stdout);
    if (left == 0) break;
    ibv_async_event event{};
    if (ibv_get_async_event(context, &event) != 0 || event.event_type != IBV_EVENT_GID_CHANGE) die("no gid_change");
    ibv_ack_async_event(&event);
  }
  return 0;
}
