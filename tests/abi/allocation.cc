// A program with an operator new of its own frees what liburoce_client made.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>

#include <uroce/daemon.h>

namespace {

// Each block of the program begins with this, so that operator delete finds what another operator new gave.
constexpr char kMark[16] = "of the program.";
long blocks = 0;

void* marked(std::size_t size) {
  auto* const memory = static_cast<char*>(std::malloc(size + sizeof(kMark)));
  if (memory == nullptr) return nullptr;
  ++blocks;
  std::memcpy(memory, kMark, sizeof(kMark));
  return memory + sizeof(kMark);
}

}  // namespace

void* operator new(std::size_t size) {
  void* const memory = marked(size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

void operator delete(void* memory) noexcept {
  if (memory == nullptr) return;
  char* const block = static_cast<char*>(memory) - sizeof(kMark);
  if (std::memcmp(block, kMark, sizeof(kMark)) != 0) {
    std::puts("error: the program frees memory that its own operator new did not give");
    std::fflush(stdout);
    std::_Exit(1);
  }
  --blocks;
  std::free(block);
}

void operator delete(void* memory, std::size_t) noexcept { operator delete(memory); }

int main() {
  for (int i = 0; i < 3; ++i) {
    const long before = blocks;
    {
      const uroce::DaemonOptions options{.socket = "/nonexistent/folder/of/a/long/name/uroced.sock"};
      const auto found = uroce::daemon_devices(options);
      if (found || found.error().text.empty()) {
        std::puts("error: a daemon that does not run has devices");
        return 1;
      }
      std::puts(found.error().text.c_str());
    }
    if (i > 0 && blocks != before) {
      std::printf("error: %ld blocks more after a call\n", blocks - before);
      return 1;
    }
  }
}
