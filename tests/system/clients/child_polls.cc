// A child of fork() polls the completion queue of its parent, which is not there. Prints how the child ends.
#include <sys/wait.h>

#include "ordinary.h"

using namespace ordinary;

int main() {
  ibv_pd* pd = open_pd();
  ibv_cq* cq = ibv_create_cq(pd->context, 16, nullptr, nullptr, 0);
  if (cq == nullptr) die("cannot create a completion queue: %s", std::strerror(errno));
  ibv_wc completion{};
  if (ibv_poll_cq(cq, 1, &completion) != 0) die("expected an empty completion queue");
  const pid_t child = fork();
  if (child == 0) _exit(ibv_poll_cq(cq, 1, &completion) == 0 ? 0 : 1);
  int status = 0;
  waitpid(child, &status, 0);
  std::printf("signal %d\n", WIFSIGNALED(status) ? WTERMSIG(status) : 0);
  return 0;
}
