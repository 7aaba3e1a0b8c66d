// Takes as many objects as ibv_query_device() promises. Written for libibverbs alone.
//
//   reach [KIND ...]      kinds: pd cq srq mr empty_mr qp; all by default
//
// Prints a line "KIND promised N got M" for each. Each has its turn, and is given back. Shared receive queues are
// resized as well.
#include <infiniband/verbs.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

namespace {

struct Kind {
  const char* name;
  int promised;
  std::function<void*()> create;
  std::function<int(void*)> destroy;
};

void take_all(const Kind& kind) {
  std::vector<void*> got;
  while (static_cast<int>(got.size()) < kind.promised) {
    void* const one = kind.create();
    if (one == nullptr) break;
    got.push_back(one);
  }
  const int error = errno;
  std::printf("%s promised %d got %zu\n", kind.name, kind.promised, got.size());
  if (static_cast<int>(got.size()) < kind.promised) std::printf("%s: %s\n", kind.name, std::strerror(error));
  std::fflush(stdout);
  for (void* const one : got) {
    if (kind.destroy(one) != 0) std::printf("%s: cannot destroy one: %s\n", kind.name, std::strerror(errno));
  }
}

/// Receives that are posted stay, and as many more fit as asked for.
void resize(ibv_srq* srq) {
  ibv_sge nothing{};
  ibv_recv_wr receive{1, nullptr, &nothing, 1}, *bad = nullptr;
  ibv_srq_attr attr{};
  attr.max_wr = 8;
  bool good = ibv_post_srq_recv(srq, &receive, &bad) == 0 && ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR) == 0;
  for (int i = 1; i < 8; ++i) good = good && ibv_post_srq_recv(srq, &receive, &bad) == 0;
  if (!good || ibv_post_srq_recv(srq, &receive, &bad) != ENOMEM) std::printf("srq: resizing failed\n");
}

}  // namespace

int main(int argc, char** argv) {
  ibv_device** devices = ibv_get_device_list(nullptr);
  ibv_context* context = devices != nullptr && devices[0] != nullptr ? ibv_open_device(devices[0]) : nullptr;
  ibv_device_attr device{};
  if (context == nullptr || ibv_query_device(context, &device) != 0) {
    std::perror("cannot open a device");
    return 1;
  }
  ibv_pd* pd = ibv_alloc_pd(context);
  ibv_cq* cq = ibv_create_cq(context, 1, nullptr, nullptr, 0);
  static char memory[4096];
  const Kind kinds[] = {
      {"pd", device.max_pd - 1, [&] { return ibv_alloc_pd(context); },
       [](void* one) { return ibv_dealloc_pd(static_cast<ibv_pd*>(one)); }},
      {"cq", device.max_cq - 1, [&] { return ibv_create_cq(context, 1, nullptr, nullptr, 0); },
       [](void* one) { return ibv_destroy_cq(static_cast<ibv_cq*>(one)); }},
      {"srq", device.max_srq,
       [&] {
         ibv_srq_init_attr init{};
         init.attr = {1, 1, 0};
         ibv_srq* const srq = ibv_create_srq(pd, &init);
         if (srq != nullptr) resize(srq);
         return srq;
       },
       [](void* one) { return ibv_destroy_srq(static_cast<ibv_srq*>(one)); }},
      {"mr", device.max_mr, [&] { return (ibv_reg_mr)(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE); },
       [](void* one) { return ibv_dereg_mr(static_cast<ibv_mr*>(one)); }},
      {"empty_mr", device.max_mr, [&] { return (ibv_reg_mr)(pd, memory, 0, IBV_ACCESS_LOCAL_WRITE); },
       [](void* one) { return ibv_dereg_mr(static_cast<ibv_mr*>(one)); }},
      {"qp", device.max_qp,
       [&] {
         ibv_qp_init_attr init{};
         init.send_cq = init.recv_cq = cq;
         init.cap = {1, 1, 1, 1, 0};
         init.qp_type = IBV_QPT_RC;
         return ibv_create_qp(pd, &init);
       },
       [](void* one) { return ibv_destroy_qp(static_cast<ibv_qp*>(one)); }},
  };
  for (const Kind& kind : kinds) {
    bool wanted = argc == 1;
    for (int i = 1; i < argc; ++i) wanted = wanted || std::string(argv[i]) == kind.name;
    if (wanted) take_all(kind);
  }
  ibv_destroy_cq(cq);
  ibv_dealloc_pd(pd);
  ibv_close_device(context);
  ibv_free_device_list(devices);
  return 0;
}
