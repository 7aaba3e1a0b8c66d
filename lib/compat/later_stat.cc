// stat() and its like, which are functions of libc from glibc 2.33 on. Before, they were functions in the headers.
// Apart from later_functions.cc, because the library that uroce-run preloads has functions of these names.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "compat/symbol.h"

extern "C" {

// On machines of 64 bits, libc's structure is the kernel's.
int uroce_stat(const char* path, void* to) UROCE_SYMBOL(stat);
int uroce_stat64(const char* path, void* to) UROCE_SYMBOL(stat64);
int uroce_lstat(const char* path, void* to) UROCE_SYMBOL(lstat);
int uroce_lstat64(const char* path, void* to) UROCE_SYMBOL(lstat64);
int uroce_fstat(int fd, void* to) UROCE_SYMBOL(fstat);
int uroce_fstat64(int fd, void* to) UROCE_SYMBOL(fstat64);
int uroce_fstatat(int folder, const char* path, void* to, int flags) UROCE_SYMBOL(fstatat);
int uroce_fstatat64(int folder, const char* path, void* to, int flags) UROCE_SYMBOL(fstatat64);

int uroce_fstatat(int folder, const char* path, void* to, int flags) {
  static_assert(sizeof(void*) == 8 && sizeof(struct stat) == sizeof(struct stat64));
  return static_cast<int>(syscall(SYS_newfstatat, folder, path, to, flags));
}
int uroce_fstatat64(int folder, const char* path, void* to, int flags) {
  return uroce_fstatat(folder, path, to, flags);
}
int uroce_stat(const char* path, void* to) { return uroce_fstatat(AT_FDCWD, path, to, 0); }
int uroce_stat64(const char* path, void* to) { return uroce_fstatat(AT_FDCWD, path, to, 0); }
int uroce_lstat(const char* path, void* to) { return uroce_fstatat(AT_FDCWD, path, to, AT_SYMLINK_NOFOLLOW); }
int uroce_lstat64(const char* path, void* to) { return uroce_fstatat(AT_FDCWD, path, to, AT_SYMLINK_NOFOLLOW); }
int uroce_fstat(int fd, void* to) { return static_cast<int>(syscall(SYS_fstat, fd, to)); }
int uroce_fstat64(int fd, void* to) { return static_cast<int>(syscall(SYS_fstat, fd, to)); }

}  // extern "C"
