// A child of fork() destroys a queue pair of its parent, as destructors do. Then it polls the completion queue, which
// is not there. Prints how the child ends.
#include <sys/wait.h>

#include "ordinary.h"

using namespace ordinary;

int main() {
  ibv_pd* pd = open_pd();
  ibv_cq* cq = ibv_create_cq(pd->context, 16, nullptr, nullptr, 0);
  if (cq == nullptr) die("cannot create a completion queue: %s", std::strerror(errno));
  ibv_wc completion{};
  if (ibv_poll_cq(cq, 1, &completion) != 0) die("expected an empty completion queue");
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = cq;
  init.cap = {1, 1, 1, 1, 0};
  init.qp_type = IBV_QPT_RC;
  ibv_qp* qp = ibv_create_qp(pd, &init);
  if (qp == nullptr) die("cannot create a queue pair: %s", std::strerror(errno));
  const pid_t child = fork();
  if (child == 0 && (ibv_destroy_qp(qp) != 0 || std::printf("destroyed\n") < 0 || std::fflush(stdout) != 0)) _exit(1);
  if (child == 0) _exit(ibv_poll_cq(cq, 1, &completion) == 0 ? 0 : 1);
  int status = 0;
  waitpid(child, &status, 0);
  std::printf("signal %d\n", WIFSIGNALED(status) ? WTERMSIG(status) : 0);
  return 0;
}
