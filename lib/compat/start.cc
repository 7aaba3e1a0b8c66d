// The start of a program that is linked to libc_limit (-Wl,--wrap=__libc_start_main).
//
// Since glibc 2.34 __libc_start_main() runs the program's constructors itself. Before, the program passed a function
// that did. The compiler's own start of a program passes none, so this file has one.
extern "C" {

using Constructor = void (*)(int, char**, char**);
extern Constructor constructors_begin[] asm("__init_array_start") __attribute__((visibility("hidden")));
extern Constructor constructors_end[] asm("__init_array_end") __attribute__((visibility("hidden")));
void old_constructors() asm("_init");

using Main = int (*)(int, char**, char**);
using Ending = void (*)();
int libc_start(Main, int, char**, Constructor, Ending, Ending, void*) asm("__real___libc_start_main");

int uroce_start(Main main, int argc, char** argv, Constructor init, Ending fini, Ending loader_fini,
                void* stack_end) asm("__wrap___libc_start_main");

}  // extern "C"

namespace {

void construct(int argc, char** argv, char** environment) {
  old_constructors();
  for (const Constructor* each = constructors_begin; each != constructors_end; ++each) (*each)(argc, argv, environment);
}

}  // namespace

extern "C" int uroce_start(Main main, int argc, char** argv, Constructor, Ending fini, Ending loader_fini,
                           void* stack_end) {
  return libc_start(main, argc, argv, construct, fini, loader_fini, stack_end);
}
