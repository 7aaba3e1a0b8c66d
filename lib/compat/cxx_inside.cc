// Three needs of a library that has the C++ library and libgcc inside.
#include <dlfcn.h>
#include <unwind.h>

extern "C" void __cxa_pure_virtual();

namespace __gnu_cxx {
void __freeres() __attribute__((weak));
}

namespace {

// Virtual tables have weak references, which take nothing from the C++ library. A call would end without a word.
[[gnu::used]] void (*const pure_virtual)() = __cxa_pure_virtual;

_Unwind_Reason_Code stop_at_once(_Unwind_Context*, void*) { return _URC_NORMAL_STOP; }

// A copy of libgcc aborts where it handles a frame of its own side for another copy before its own first use. libc's
// copy unwinds a cancelled thread through this library, and an exception of this library may reach the program.
[[gnu::constructor]] void use_both_unwinders() {
  _Unwind_Backtrace(stop_at_once, nullptr);
  auto* const of_program = reinterpret_cast<decltype(&_Unwind_Backtrace)>(dlsym(RTLD_DEFAULT, "_Unwind_Backtrace"));
  if (of_program != nullptr) of_program(stop_at_once, nullptr);
}

// Each copy keeps 72 KiB for exceptions. They go when the library is unloaded.
[[gnu::destructor]] void free_exception_memory() {
  if (&__gnu_cxx::__freeres != nullptr) __gnu_cxx::__freeres();
}

}  // namespace
