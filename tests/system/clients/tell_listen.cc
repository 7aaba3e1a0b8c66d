// Preloaded into servers: makes the file that UROCE_TEST_LISTENS names as soon as the program listens, which it does
// not say itself. Datagram rsockets do so when they are bound; UROCE_TEST_LISTENS_AT=bind waits for that instead.
#include <dlfcn.h>
#include <fcntl.h>
#include <rdma/rdma_cma.h>
#include <rdma/rsocket.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

namespace {

template <class Function>
Function next(Function /*of this name*/, const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

int tell(int result, const char* at) {
  const char* file = std::getenv("UROCE_TEST_LISTENS");
  const char* wanted = std::getenv("UROCE_TEST_LISTENS_AT");
  if (result != 0 || file == nullptr || std::strcmp(wanted != nullptr ? wanted : "listen", at) != 0) return result;
  close(open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  return result;
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

int rdma_listen(rdma_cm_id* id, int backlog) { return tell(next(&rdma_listen, "rdma_listen")(id, backlog), "listen"); }

int rlisten(int socket, int backlog) { return tell(next(&rlisten, "rlisten")(socket, backlog), "listen"); }

int rbind(int socket, const sockaddr* address, socklen_t length) {
  return tell(next(&rbind, "rbind")(socket, address, length), "bind");
}

}  // extern "C"
#pragma GCC visibility pop
