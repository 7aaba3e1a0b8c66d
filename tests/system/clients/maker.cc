// Makes objects of a device, and says how each call ended. Written for libibverbs alone.
//
//   maker DEVICE CALL ...
//
// Makes what all calls need, prints "ready", and prints for each CALL (pd, channel, cq, srq, qp, ah, mr, rereg, mw,
// xrcd, modify) "CALL ok", or "CALL ERROR".
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

[[noreturn]] void die(const char* what) {
  std::perror(what);
  std::exit(1);
}

class Maker {
 public:
  explicit Maker(const char* name) {
    ibv_device** devices = ibv_get_device_list(nullptr);
    for (ibv_device** one = devices; one != nullptr && *one != nullptr; ++one) {
      if (std::strcmp(ibv_get_device_name(*one), name) == 0) context_ = ibv_open_device(*one);
    }
    if (context_ == nullptr || ibv_query_gid(context_, 1, 0, &gid_) != 0) die(name);
    pd_ = ibv_alloc_pd(context_);
    cq_ = ibv_create_cq(context_, 16, nullptr, nullptr, 0);
    mr_ = (ibv_reg_mr)(pd_, memory_.data(), memory_.size(), IBV_ACCESS_LOCAL_WRITE);
    qp_ = make_qp();
    if (pd_ == nullptr || cq_ == nullptr || mr_ == nullptr || qp_ == nullptr) die("cannot make what all calls need");
  }

  /// The error of a call, 0 for none; -1 where there is no such call.
  int call(const std::string& name) {
    errno = 0;
    if (name == "pd") return of(ibv_alloc_pd(context_));
    if (name == "channel") return of(ibv_create_comp_channel(context_));
    if (name == "cq") return of(ibv_create_cq(context_, 16, nullptr, nullptr, 0));
    if (name == "srq") {
      ibv_srq_init_attr init{nullptr, {16, 1, 0}};
      return of(ibv_create_srq(pd_, &init));
    }
    if (name == "qp") return of(make_qp());
    if (name == "ah") {
      ibv_ah_attr attr{};
      attr.is_global = 1;
      attr.port_num = 1;
      attr.grh.dgid = gid_;
      return of(ibv_create_ah(pd_, &attr));
    }
    if (name == "mr") return of((ibv_reg_mr)(pd_, memory_.data(), memory_.size(), IBV_ACCESS_LOCAL_WRITE));
    if (name == "rereg") {
      return ibv_rereg_mr(mr_, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, IBV_ACCESS_LOCAL_WRITE) == 0 ? 0
                                                                                                             : errno;
    }
    if (name == "mw") return of(ibv_alloc_mw(pd_, IBV_MW_TYPE_1));
    if (name == "xrcd") {
      ibv_xrcd_init_attr init{};
      init.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
      init.fd = -1;
      init.oflags = O_CREAT;
      return of(ibv_open_xrcd(context_, &init));
    }
    if (name == "modify") {
      ibv_qp_attr attr{};
      attr.qp_state = IBV_QPS_INIT;
      attr.port_num = 1;
      return ibv_modify_qp(qp_, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    }
    return -1;
  }

 private:
  static int of(const void* made) { return made != nullptr ? 0 : errno; }
  ibv_qp* make_qp() const {
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = cq_;
    init.cap = {4, 4, 1, 1, 0};
    init.qp_type = IBV_QPT_RC;
    return ibv_create_qp(pd_, &init);
  }

  std::vector<uint8_t> memory_ = std::vector<uint8_t>(65536);
  ibv_context* context_ = nullptr;
  ibv_gid gid_{};
  ibv_pd* pd_ = nullptr;
  ibv_cq* cq_ = nullptr;
  ibv_mr* mr_ = nullptr;
  ibv_qp* qp_ = nullptr;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  Maker maker(argv[1]);
  std::puts("ready");
  for (int i = 2; i < argc; ++i) {
    const int error = maker.call(argv[i]);
    if (error < 0) return 2;
    std::printf("%s %s\n", argv[i], error == 0 ? "ok" : strerrorname_np(error));
  }
  return 0;
}
