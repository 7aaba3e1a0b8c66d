// Libraries that have the C++ library inside, loaded into a program that has another copy: threads, exceptions, the
// end of threads and their cancellation go on in both, and the libraries can be unloaded.
//
// Usage: two_copies LIBRDMACM LIBIBVERBS
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>

#include <dlfcn.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

namespace {

int failures = 0;

void expect(bool right, const char* what) {
  if (right) return;
  std::printf("error: %s\n", what);
  ++failures;
}

[[noreturn]] void fail() {
  std::printf("error: %s\n", dlerror());
  std::exit(1);
}

template <class Function>
Function of(void* library, const char* name) {
  auto* const found = reinterpret_cast<Function>(dlsym(library, name));
  if (found == nullptr) fail();
  return found;
}

int ended = 0;
struct Ending {
  ~Ending() { ++ended; }
};
thread_local Ending ending;

/// The libraries catch exceptions of their own on the way to the error.
void use(void* rdmacm, void* ibverbs) {
  int count = -1;
  void** const list = of<void** (*)(int*)>(ibverbs, "ibv_get_device_list")(&count);
  expect(list != nullptr && count == 0, "without a daemon there is an empty list");
  if (list != nullptr) of<void (*)(void**)>(ibverbs, "ibv_free_device_list")(list);
  errno = 0;
  expect(of<void* (*)()>(rdmacm, "rdma_create_event_channel")() == nullptr && errno != 0, "there is no event channel");
  expect(of<int (*)(int, int, int)>(rdmacm, "rsocket")(-1, -1, -1) == -1, "there is no such rsocket");
}

void use_in_a_thread(void* rdmacm, void* ibverbs) {
  const int before = ended;
  std::thread([&] {
    static_cast<void>(&ending);
    try {
      use(rdmacm, ibverbs);
      throw std::runtime_error("the program's");
    } catch (const std::exception& error) {
      expect(std::strcmp(error.what(), "the program's") == 0, "the exception is the program's");
    }
    expect(std::uncaught_exceptions() == 0, "no exception is under way");
  }).join();
  expect(ended == before + 1, "the thread's objects ended with it");
}

struct Wait {
  int (*rpoll)(pollfd*, nfds_t, int);
  int fd;
};

void* wait_for_ever(void* argument) {
  const auto& wait = *static_cast<Wait*>(argument);
  static_cast<void>(&ending);
  pollfd each{.fd = wait.fd, .events = POLLIN, .revents = 0};
  wait.rpoll(&each, 1, -1);
  return nullptr;
}

/// libc unwinds the thread with the system's libgcc through functions that have the other one inside.
void cancel_in_a_call(void* rdmacm) {
  int ends[2];
  expect(pipe(ends) == 0, "there is a pipe");
  Wait wait{.rpoll = of<int (*)(pollfd*, nfds_t, int)>(rdmacm, "rpoll"), .fd = ends[0]};
  const int before = ended;
  pthread_t thread{};
  pthread_create(&thread, nullptr, wait_for_ever, &wait);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  pthread_cancel(thread);
  void* result = nullptr;
  pthread_join(thread, &result);
  expect(result == PTHREAD_CANCELED, "the wait ends with its thread");
  expect(ended == before + 1, "the cancelled thread's objects ended with it");
  close(ends[0]);
  close(ends[1]);
}

bool is_mapped(const char* path) {
  char* const real = realpath(path, nullptr);
  const std::string name = real != nullptr ? real : path;
  std::free(real);
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.ends_with(name)) return true;
  }
  return false;
}

void load_and_unload(const char* rdmacm_path, const char* ibverbs_path) {
  void* const ibverbs = dlopen(ibverbs_path, RTLD_NOW | RTLD_LOCAL);
  if (ibverbs == nullptr) fail();
  void* const rdmacm = dlopen(rdmacm_path, RTLD_NOW | RTLD_LOCAL);
  if (rdmacm == nullptr) fail();
  cancel_in_a_call(rdmacm);
  use_in_a_thread(rdmacm, ibverbs);
  use_in_a_thread(rdmacm, ibverbs);
  dlclose(rdmacm);
  dlclose(ibverbs);
}

}  // namespace

int main(int, char** argv) {
  std::size_t before = 0;
  constexpr int kRounds = 20, kWarm = 5;
  for (int i = 0; i < kRounds; ++i) {
    load_and_unload(argv[1], argv[2]);
    if (i == kWarm) before = mallinfo2().uordblks;
  }
  const std::size_t after = mallinfo2().uordblks;
  std::printf("%zu bytes after %d rounds, %zu after %d\n", before, kWarm, after, kRounds);
  expect(!is_mapped(argv[1]) && !is_mapped(argv[2]), "dlclose() unloads the libraries");
  expect(after < before + std::size_t{kRounds} * 4096, "each round leaves less than a page");
  try {
    throw std::logic_error("after them");
  } catch (const std::logic_error&) {
  }
  return failures != 0 ? 1 : 0;
}
