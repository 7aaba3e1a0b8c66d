// Preloaded by uroce-run: calls for paths below /sys/class/infiniband* and /dev/infiniband go to the tree that
// UROCE_SYSFS names, because the kernel knows no uroce device. All other paths pass through unchanged.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
// Both names of each call are defined here, and those that check sizes: with these macros the headers would make one of
// them.
#undef _FILE_OFFSET_BITS
#undef _FORTIFY_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>

#include "dropin/sysfs/path.h"
#include "dropin/sysfs/view_socket.h"

namespace {

using uroce::dropin::RedirectedPath;
using uroce::dropin::refresh_counters;
using uroce::dropin::restore_path;

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

#ifdef __x86_64__
constexpr int kStatVersion = 1;  // _STAT_VER of headers before glibc 2.33
#else
constexpr int kStatVersion = 0;
#endif

/// Of a file that is about to be read.
struct FreshPath : RedirectedPath {
  explicit FreshPath(const char* path) : RedirectedPath(path) {
    if (is_counter()) refresh_counters();
  }
};

/// A device in the tree is a link to one of the kernel's. Programs shall see the device.
int status_flags(const RedirectedPath& to, int flags) { return to.is_device() ? flags & ~AT_SYMLINK_NOFOLLOW : flags; }

// The types of calls whose name is a structure's, too, or that no header declares.
using Stat = int(const char*, struct stat*);
using Stat64 = int(const char*, struct stat64*);
using Statx = int(int, const char*, int, unsigned, struct statx*);
using Xstat = int(int, const char*, struct stat*);
using Xstat64 = int(int, const char*, struct stat64*);
using Fxstatat = int(int, int, const char*, struct stat*, int);
using Fxstatat64 = int(int, int, const char*, struct stat64*, int);
using Open2 = int(const char*, int);
using Openat2 = int(int, const char*, int);
using ReadlinkChk = ssize_t(const char*, char*, size_t, size_t);
using GetcwdChk = char*(char*, size_t, size_t);
using RealpathChk = char*(const char*, char*, size_t);

}  // namespace

#define NEXT(name) next(&(name), #name)
#define NEXT_AS(type, name) next<type>(nullptr, #name)
#define FORWARD_OPEN(name)                         \
  int name(const char* path, int flags, ...) {     \
    va_list arguments;                             \
    va_start(arguments, flags);                    \
    const mode_t mode = mode_of(flags, arguments); \
    va_end(arguments);                             \
    const FreshPath to(path);                      \
    return NEXT(name)(to.c_str(), flags, mode);    \
  }
#define FORWARD_OPENAT(name)                                  \
  int name(int directory, const char* path, int flags, ...) { \
    va_list arguments;                                        \
    va_start(arguments, flags);                               \
    const mode_t mode = mode_of(flags, arguments);            \
    va_end(arguments);                                        \
    const FreshPath to(path);                                 \
    return NEXT(name)(directory, to.c_str(), flags, mode);    \
  }

extern "C" {

FORWARD_OPEN(open)
FORWARD_OPEN(open64)
FORWARD_OPENAT(openat)
FORWARD_OPENAT(openat64)

FILE* fopen(const char* path, const char* mode) { return NEXT(fopen)(FreshPath(path).c_str(), mode); }
FILE* fopen64(const char* path, const char* mode) { return NEXT(fopen64)(FreshPath(path).c_str(), mode); }
DIR* opendir(const char* path) { return NEXT(opendir)(RedirectedPath(path).c_str()); }

int scandir(const char* path, dirent*** list, int (*filter)(const dirent*),
            int (*compare)(const dirent**, const dirent**)) {
  return NEXT(scandir)(RedirectedPath(path).c_str(), list, filter, compare);
}
int scandir64(const char* path, dirent64*** list, int (*filter)(const dirent64*),
              int (*compare)(const dirent64**, const dirent64**)) {
  return NEXT(scandir64)(RedirectedPath(path).c_str(), list, filter, compare);
}

int statx(int directory, const char* path, int flags, unsigned mask, struct statx* out) {
  const RedirectedPath to(path);
  return NEXT_AS(Statx, statx)(directory, to.c_str(), status_flags(to, flags), mask, out);
}

// Programs that were linked before glibc 2.33 call these.
int __xstat(int version, const char* path, struct stat* out) {
  return NEXT_AS(Xstat, __xstat)(version, RedirectedPath(path).c_str(), out);
}
int __xstat64(int version, const char* path, struct stat64* out) {
  return NEXT_AS(Xstat64, __xstat64)(version, RedirectedPath(path).c_str(), out);
}
int __fxstatat(int version, int directory, const char* path, struct stat* out, int flags) {
  const RedirectedPath to(path);
  return NEXT_AS(Fxstatat, __fxstatat)(version, directory, to.c_str(), out, status_flags(to, flags));
}
int __fxstatat64(int version, int directory, const char* path, struct stat64* out, int flags) {
  const RedirectedPath to(path);
  return NEXT_AS(Fxstatat64, __fxstatat64)(version, directory, to.c_str(), out, status_flags(to, flags));
}
int __lxstat(int version, const char* path, struct stat* out) {
  return __fxstatat(version, AT_FDCWD, path, out, AT_SYMLINK_NOFOLLOW);
}
int __lxstat64(int version, const char* path, struct stat64* out) {
  return __fxstatat64(version, AT_FDCWD, path, out, AT_SYMLINK_NOFOLLOW);
}

// glibc before 2.33 has __xstat() and its like alone. Then the names below are asked for by this library, or by
// dlsym().
int fstatat(int directory, const char* path, struct stat* out, int flags) {
  const RedirectedPath to(path);
  auto* const real = NEXT(fstatat);
  if (real == nullptr) return __fxstatat(kStatVersion, directory, path, out, flags);
  return real(directory, to.c_str(), out, status_flags(to, flags));
}
int fstatat64(int directory, const char* path, struct stat64* out, int flags) {
  const RedirectedPath to(path);
  auto* const real = NEXT(fstatat64);
  if (real == nullptr) return __fxstatat64(kStatVersion, directory, path, out, flags);
  return real(directory, to.c_str(), out, status_flags(to, flags));
}
int stat(const char* path, struct stat* out) {
  auto* const real = NEXT_AS(Stat, stat);
  return real != nullptr ? real(RedirectedPath(path).c_str(), out) : __xstat(kStatVersion, path, out);
}
int stat64(const char* path, struct stat64* out) {
  auto* const real = NEXT_AS(Stat64, stat64);
  return real != nullptr ? real(RedirectedPath(path).c_str(), out) : __xstat64(kStatVersion, path, out);
}
int lstat(const char* path, struct stat* out) {
  const RedirectedPath to(path);
  if (to.is_device()) return stat(path, out);
  auto* const real = NEXT(lstat);
  return real != nullptr ? real(to.c_str(), out) : __lxstat(kStatVersion, path, out);
}
int lstat64(const char* path, struct stat64* out) {
  const RedirectedPath to(path);
  if (to.is_device()) return stat64(path, out);
  auto* const real = NEXT(lstat64);
  return real != nullptr ? real(to.c_str(), out) : __lxstat64(kStatVersion, path, out);
}

int access(const char* path, int mode) { return NEXT(access)(RedirectedPath(path).c_str(), mode); }
int euidaccess(const char* path, int mode) { return NEXT(euidaccess)(RedirectedPath(path).c_str(), mode); }
int eaccess(const char* path, int mode) { return NEXT(eaccess)(RedirectedPath(path).c_str(), mode); }
int faccessat(int directory, const char* path, int mode, int flags) {
  return NEXT(faccessat)(directory, RedirectedPath(path).c_str(), mode, flags);
}
ssize_t readlink(const char* path, char* out, size_t size) {
  return NEXT(readlink)(RedirectedPath(path).c_str(), out, size);
}
ssize_t readlinkat(int directory, const char* path, char* out, size_t size) {
  return NEXT(readlinkat)(directory, RedirectedPath(path).c_str(), out, size);
}

// `ls -l` looks for access control lists.
ssize_t getxattr(const char* path, const char* name, void* value, size_t size) {
  return NEXT(getxattr)(RedirectedPath(path).c_str(), name, value, size);
}
ssize_t lgetxattr(const char* path, const char* name, void* value, size_t size) {
  const RedirectedPath to(path);
  return to.is_device() ? getxattr(path, name, value, size) : NEXT(lgetxattr)(to.c_str(), name, value, size);
}

int chdir(const char* path) { return NEXT(chdir)(RedirectedPath(path).c_str()); }
char* getcwd(char* out, size_t size) { return restore_path(NEXT(getcwd)(out, size)); }
char* realpath(const char* path, char* out) {
  const RedirectedPath to(path);
  return restore_path(NEXT(realpath)(to.c_str(), out));
}

// Programs that are compiled with _FORTIFY_SOURCE call these.
int __open_2(const char* path, int flags) { return NEXT_AS(Open2, __open_2)(FreshPath(path).c_str(), flags); }
int __open64_2(const char* path, int flags) { return NEXT_AS(Open2, __open64_2)(FreshPath(path).c_str(), flags); }
int __openat_2(int directory, const char* path, int flags) {
  return NEXT_AS(Openat2, __openat_2)(directory, FreshPath(path).c_str(), flags);
}
int __openat64_2(int directory, const char* path, int flags) {
  return NEXT_AS(Openat2, __openat64_2)(directory, FreshPath(path).c_str(), flags);
}
ssize_t __readlink_chk(const char* path, char* out, size_t size, size_t room) {
  return NEXT_AS(ReadlinkChk, __readlink_chk)(RedirectedPath(path).c_str(), out, size, room);
}
char* __getcwd_chk(char* out, size_t size, size_t room) {
  return restore_path(NEXT_AS(GetcwdChk, __getcwd_chk)(out, size, room));
}
char* __realpath_chk(const char* path, char* out, size_t room) {
  const RedirectedPath to(path);
  return restore_path(NEXT_AS(RealpathChk, __realpath_chk)(to.c_str(), out, room));
}

}  // extern "C"
