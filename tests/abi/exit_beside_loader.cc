// A program that ends while another thread loads and unloads a library: it ends, whatever the preloaded library does
// then. Usage: exit_beside_loader LIBRARY RUNS
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <thread>

namespace {

std::atomic<int> loaded{0};

void load_and_unload(const char* library) {
  for (;;) {
    void* const handle = dlopen(library, RTLD_NOW);
    if (handle == nullptr) std::_Exit(2);
    ++loaded;
    dlclose(handle);
  }
}

[[noreturn]] void run(const char* library) {
  std::thread(load_and_unload, library).detach();
  while (loaded < 3) std::this_thread::yield();
  std::exit(0);  // with the destructors of libraries
}

}  // namespace

int main(int argc, char** argv) {
  const int runs = argc == 3 ? std::atoi(argv[2]) : 0;
  for (int i = 0; i < runs; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);
      run(argv[1]);
    }
    int status = -1;
    if (waitpid(child, &status, 0) != child || status != 0) {
      std::fprintf(stderr, "run %d of %d ended with status %#x\n", i + 1, runs, static_cast<unsigned>(status));
      return 1;
    }
  }
  return runs == 0 ? 2 : 0;
}
