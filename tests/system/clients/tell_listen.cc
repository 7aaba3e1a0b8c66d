// Preloaded into servers: makes the file that UROCE_TEST_LISTENS names as soon as the program listens, which it does
// not say itself; FILE.2 when it listens for the second time, and so on. Datagram rsockets do so when they are bound;
// UROCE_TEST_LISTENS_AT=bind waits for that instead.
// Preloaded into perftest's clients with rdma_cm: UROCE_TEST_CONNECTS_AGAIN_AFTER names a file that their second
// connection waits for. They do not wait for the server, which listens anew for it, and do not survive being refused.
// Preloaded into rping: its main thread closes the event channel, frees what it shares with the event thread, and exits
// with the result. Its event thread, if it is late, reads the freed memory, or finds the channel closed and exits with
// an error instead. Here the main thread waits until the other one is back in rdma_get_cm_event(), and that one waits
// there until the main thread has come through.
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <rdma/rsocket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

template <class Function>
Function next(Function /*of this name*/, const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

int tell(int result, const char* at) {
  const char* file = std::getenv("UROCE_TEST_LISTENS");
  const char* wanted = std::getenv("UROCE_TEST_LISTENS_AT");
  if (result != 0 || file == nullptr || std::strcmp(wanted != nullptr ? wanted : "listen", at) != 0) return result;
  static std::atomic<int> told = 0;
  const int number = ++told;
  const std::string name = number == 1 ? std::string(file) : std::string(file) + "." + std::to_string(number);
  close(open(name.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  return result;
}

void await_file(const char* variable) {
  const char* file = std::getenv(variable);
  if (file == nullptr) return;
  for (int tries = 0; tries < 3000 && access(file, F_OK) != 0; ++tries) usleep(10'000);
}

void await_turn() {
  static std::atomic<int> calls = 0;
  if (++calls > 1) await_file("UROCE_TEST_CONNECTS_AGAIN_AFTER");
}

std::atomic<int> asking = 0;               // threads in rdma_get_cm_event()
std::atomic<pthread_t> event_thread = {};  // the last that was there

void await_event_thread() {
  const pthread_t thread = event_thread;
  if (thread == pthread_t{} || pthread_equal(thread, pthread_self()) != 0) return;
  for (int tries = 0; tries < 500 && asking == 0; ++tries) usleep(10'000);
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

int rdma_listen(rdma_cm_id* id, int backlog) { return tell(next(&rdma_listen, "rdma_listen")(id, backlog), "listen"); }

int rdma_connect(rdma_cm_id* id, rdma_conn_param* parameters) {
  await_turn();
  return next(&rdma_connect, "rdma_connect")(id, parameters);
}

// mckey's sender does not wait for its sends, which may end with it. UROCE_TEST_LEAVES_AFTER names a file that it waits
// for.
int rdma_leave_multicast(rdma_cm_id* id, sockaddr* group) {
  await_file("UROCE_TEST_LEAVES_AFTER");
  return next(&rdma_leave_multicast, "rdma_leave_multicast")(id, group);
}

int rdma_get_cm_event(rdma_event_channel* channel, rdma_cm_event** event) {
  event_thread = pthread_self();
  ++asking;
  const int result = next(&rdma_get_cm_event, "rdma_get_cm_event")(channel, event);
  if (result != 0 && errno == EBADF) {
    sleep(5);
    errno = EBADF;
  }
  --asking;
  return result;
}

void rdma_destroy_event_channel(rdma_event_channel* channel) {
  await_event_thread();
  next(&rdma_destroy_event_channel, "rdma_destroy_event_channel")(channel);
}

int rlisten(int socket, int backlog) { return tell(next(&rlisten, "rlisten")(socket, backlog), "listen"); }

int rbind(int socket, const sockaddr* address, socklen_t length) {
  return tell(next(&rbind, "rbind")(socket, address, length), "bind");
}

}  // extern "C"
#pragma GCC visibility pop
