// Two needs of a library that has the C++ library inside.
extern "C" void __cxa_pure_virtual();

namespace __gnu_cxx {
void __freeres() __attribute__((weak));
}

namespace {

// Virtual tables have weak references, which take nothing from the C++ library. A call would end without a word.
[[gnu::used]] void (*const pure_virtual)() = __cxa_pure_virtual;

// Each copy keeps 72 KiB for exceptions. They go when the library is unloaded.
[[gnu::destructor]] void free_exception_memory() {
  if (&__gnu_cxx::__freeres != nullptr) __gnu_cxx::__freeres();
}

}  // namespace
