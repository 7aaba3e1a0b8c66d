// Definitions in place of libc's.
#pragma once

// Follows the declaration of a function whose name for the linker is libc's. Its name in C++ is another, because libc's
// headers declare some of them, or redirect them.
#define UROCE_SYMBOL(name) asm(#name) __attribute__((visibility("hidden")))
