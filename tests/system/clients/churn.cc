// Opens the device, makes a region, a completion queue and a queue pair, and ends all of them, over and over until
// SIGTERM. Calls may fail where the daemon dies in them; the next round begins anew.
//
//   churn [rest]
//
// Prints a line for every 20 rounds that succeeded, and the counts as JSON at the end. With `rest` one round's objects
// stay until SIGTERM, and no call may fail.
#include <csignal>
#include <string_view>

#include "ordinary.h"

using namespace ordinary;

namespace {

constexpr unsigned kRoundsPerLine = 20;

volatile sig_atomic_t ended = 0;

struct Objects {
  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  ibv_mr* mr = nullptr;
  ibv_cq* cq = nullptr;
  ibv_qp* qp = nullptr;
};

bool begin(Objects& made, Byte* memory) {
  ibv_device** list = ibv_get_device_list(nullptr);
  if (list == nullptr) return false;
  if (*list != nullptr) made.context = ibv_open_device(*list);
  ibv_free_device_list(list);
  if (made.context == nullptr || (made.pd = ibv_alloc_pd(made.context)) == nullptr) return false;
  if ((made.mr = ibv_reg_mr(made.pd, memory, 4 * kPage, kAccess)) == nullptr) return false;
  if ((made.cq = ibv_create_cq(made.context, 16, nullptr, nullptr, 0)) == nullptr) return false;
  ibv_qp_init_attr how{};
  how.send_cq = how.recv_cq = made.cq;
  how.cap = {.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
  how.qp_type = IBV_QPT_RC;
  if ((made.qp = ibv_create_qp(made.pd, &how)) == nullptr) return false;
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  return ibv_modify_qp(made.qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0;
}

bool end(Objects& made) {
  bool good = true;
  if (made.qp != nullptr) good = ibv_destroy_qp(made.qp) == 0 && good;
  if (made.cq != nullptr) good = ibv_destroy_cq(made.cq) == 0 && good;
  if (made.mr != nullptr) good = ibv_dereg_mr(made.mr) == 0 && good;
  if (made.pd != nullptr) good = ibv_dealloc_pd(made.pd) == 0 && good;
  if (made.context != nullptr) good = ibv_close_device(made.context) == 0 && good;
  return good;
}

void rest(Byte* memory) {
  Objects made;
  if (!begin(made, memory)) die("a call failed before any crash: %s", std::strerror(errno));
  std::puts("resting");
  std::fflush(stdout);
  while (ended == 0) usleep(10'000);
  if (!end(made)) die("a call failed after the crashes: %s", std::strerror(errno));
}

void churn(Byte* memory) {
  unsigned long rounds = 0, failed = 0;
  while (ended == 0) {
    Objects made;
    const bool begun = begin(made, memory);
    const bool good = end(made) && begun;
    ++(good ? rounds : failed);
    if (good && rounds % kRoundsPerLine == 0) std::printf("%lu rounds\n", rounds), std::fflush(stdout);
  }
  std::printf("{\"rounds\": %lu, \"failed\": %lu}\n", rounds, failed);
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGTERM, [](int) { ended = 1; });
  Byte* memory = map_pages(4);
  if (argc == 2 && std::string_view(argv[1]) == "rest")
    rest(memory);
  else
    churn(memory);
}
