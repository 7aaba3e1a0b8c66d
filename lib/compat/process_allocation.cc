// operator new and delete of a library that has the C++ library inside and gives C++ objects away. The program frees a
// string that the library made, and the other way round. So both use the program's functions, which it may have
// replaced.
#include <cstdlib>
#include <new>

#include <dlfcn.h>

namespace {

using Allocate = void* (*)(std::size_t, const std::nothrow_t&);
using Free = void (*)(void*);

// Null where the process has no C++ library that others can see: all of its copies use malloc().
template <class Function>
Function of_process(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
}

}  // namespace

void* operator new(std::size_t size) {
  // Not the function that throws: its exception would be another library's.
  static const auto of_program = of_process<Allocate>("_ZnwmRKSt9nothrow_t");
  void* const memory = of_program != nullptr ? of_program(size, std::nothrow) : std::malloc(size != 0 ? size : 1);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

void operator delete(void* memory) noexcept {
  static const auto of_program = of_process<Free>("_ZdlPv");
  if (of_program != nullptr) return of_program(memory);
  std::free(memory);
}

void operator delete(void* memory, std::size_t) noexcept { operator delete(memory); }
