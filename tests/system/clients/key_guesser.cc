// Two programs on plain librdmacm, under uroce-run. The server accepts all connections. The client makes one after the
// other, and each ends by a WRITE with a key that opens nothing. It says how many there were.
//
// Usage: key_guesser server|client ADDRESS PORT
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

[[noreturn]] void die(const char* call) {
  std::fprintf(stderr, "%s: %s\n", call, std::strerror(errno));
  std::exit(1);
}

struct Ends {
  rdma_addrinfo* found = nullptr;
  ibv_qp_init_attr attr{};

  Ends(char** names, bool passive) {
    rdma_addrinfo hints{};
    hints.ai_port_space = RDMA_PS_TCP;
    hints.ai_flags = passive ? RAI_PASSIVE | RAI_NUMERICHOST : RAI_NUMERICHOST;
    if (rdma_getaddrinfo(names[0], names[1], &hints, &found) != 0) die("rdma_getaddrinfo");
    attr.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
    attr.sq_sig_all = 1;
    attr.qp_type = IBV_QPT_RC;
  }
  rdma_cm_id* make() {
    rdma_cm_id* id = nullptr;
    ibv_qp_init_attr copy = attr;
    if (rdma_create_ep(&id, found, nullptr, &copy) != 0) die("rdma_create_ep");
    return id;
  }
};

void serve(Ends& ends) {
  rdma_cm_id* const listener = ends.make();
  if (rdma_listen(listener, 0) != 0) die("rdma_listen");
  std::puts("ready");
  while (true) {
    rdma_cm_id* id = nullptr;
    if (rdma_get_request(listener, &id) != 0) die("rdma_get_request");
    if (rdma_accept(id, nullptr) != 0) die("rdma_accept");
  }
}

void guess(Ends& ends) {
  std::array<char, 8> bytes{};
  for (uint32_t count = 1;; ++count) {
    rdma_cm_id* const id = ends.make();
    ibv_mr* const memory = rdma_reg_msgs(id, bytes.data(), bytes.size());
    if (memory == nullptr) die("rdma_reg_msgs");
    if (rdma_connect(id, nullptr) != 0) die("rdma_connect");
    if (rdma_post_write(id, nullptr, bytes.data(), bytes.size(), memory, 0, 4096, 0x10000 + count) != 0) die("write");
    ibv_wc completion{};
    if (rdma_get_send_comp(id, &completion) != 1 || completion.status != IBV_WC_REM_ACCESS_ERR) die("completion");
    std::printf("%u guessed\n", count);
    rdma_dereg_mr(memory);
    rdma_destroy_ep(id);
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  const std::string role = argc == 4 ? argv[1] : "";
  if (role != "server" && role != "client") {
    std::fprintf(stderr, "usage: key_guesser server|client ADDRESS PORT\n");
    return 2;
  }
  Ends ends(argv + 2, role == "server");
  role == "server" ? serve(ends) : guess(ends);
}
