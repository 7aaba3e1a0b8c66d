// Preloaded by uroce-run: calls for paths below /sys/class/infiniband* go to the tree that UROCE_SYSFS names, because
// the kernel knows no uroce device. All other paths pass through unchanged.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
// Both names of each call are defined here: with this macro the headers would make one of the two.
#undef _FILE_OFFSET_BITS
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>

#include "dropin/sysfs/path.h"

namespace {

using uroce::dropin::RedirectedPath;

/// The C library's function. Resolved at each call, because preloaded code runs before any constructor of ours.
template <class Function>
Function* next(Function*, const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

mode_t mode_of(int flags, va_list arguments) {
  // Only calls with these flags pass a mode (open(2)).
  const bool creates = (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
  return creates ? va_arg(arguments, mode_t) : 0;
}

}  // namespace

#define NEXT(name) next(&name, #name)
#define FORWARD_OPEN(name)                         \
  int name(const char* path, int flags, ...) {     \
    va_list arguments;                             \
    va_start(arguments, flags);                    \
    const mode_t mode = mode_of(flags, arguments); \
    va_end(arguments);                             \
    const RedirectedPath to(path);                 \
    return NEXT(name)(to.c_str(), flags, mode);    \
  }
#define FORWARD_OPENAT(name)                                  \
  int name(int directory, const char* path, int flags, ...) { \
    va_list arguments;                                        \
    va_start(arguments, flags);                               \
    const mode_t mode = mode_of(flags, arguments);            \
    va_end(arguments);                                        \
    const RedirectedPath to(path);                            \
    return NEXT(name)(directory, to.c_str(), flags, mode);    \
  }

extern "C" {

FORWARD_OPEN(open)
FORWARD_OPEN(open64)
FORWARD_OPENAT(openat)
FORWARD_OPENAT(openat64)

FILE* fopen(const char* path, const char* mode) { return NEXT(fopen)(RedirectedPath(path).c_str(), mode); }
FILE* fopen64(const char* path, const char* mode) { return NEXT(fopen64)(RedirectedPath(path).c_str(), mode); }
DIR* opendir(const char* path) { return NEXT(opendir)(RedirectedPath(path).c_str()); }

int scandir(const char* path, dirent*** list, int (*filter)(const dirent*),
            int (*compare)(const dirent**, const dirent**)) {
  return NEXT(scandir)(RedirectedPath(path).c_str(), list, filter, compare);
}

int stat(const char* path, struct stat* out) {
  using Stat = int(const char*, struct stat*);
  return next(static_cast<Stat*>(nullptr), "stat")(RedirectedPath(path).c_str(), out);
}
int lstat(const char* path, struct stat* out) { return NEXT(lstat)(RedirectedPath(path).c_str(), out); }
int stat64(const char* path, struct stat64* out) {
  using Stat = int(const char*, struct stat64*);
  return next(static_cast<Stat*>(nullptr), "stat64")(RedirectedPath(path).c_str(), out);
}
int lstat64(const char* path, struct stat64* out) { return NEXT(lstat64)(RedirectedPath(path).c_str(), out); }
int fstatat(int directory, const char* path, struct stat* out, int flags) {
  return NEXT(fstatat)(directory, RedirectedPath(path).c_str(), out, flags);
}
int fstatat64(int directory, const char* path, struct stat64* out, int flags) {
  return NEXT(fstatat64)(directory, RedirectedPath(path).c_str(), out, flags);
}
int statx(int directory, const char* path, int flags, unsigned mask, struct statx* out) {
  using Statx = int(int, const char*, int, unsigned, struct statx*);
  return next(static_cast<Statx*>(nullptr), "statx")(directory, RedirectedPath(path).c_str(), flags, mask, out);
}
int access(const char* path, int mode) { return NEXT(access)(RedirectedPath(path).c_str(), mode); }
int faccessat(int directory, const char* path, int mode, int flags) {
  return NEXT(faccessat)(directory, RedirectedPath(path).c_str(), mode, flags);
}
ssize_t readlink(const char* path, char* out, size_t size) {
  return NEXT(readlink)(RedirectedPath(path).c_str(), out, size);
}
ssize_t readlinkat(int directory, const char* path, char* out, size_t size) {
  return NEXT(readlinkat)(directory, RedirectedPath(path).c_str(), out, size);
}
char* realpath(const char* path, char* out) { return NEXT(realpath)(RedirectedPath(path).c_str(), out); }

}  // extern "C"
