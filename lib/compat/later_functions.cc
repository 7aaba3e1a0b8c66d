// Functions that glibc 2.28 does not have, for the libraries and programs that are linked to libc_limit. The compiler's
// own libraries call some of them, and stand last for the linker. So this file is linked as a whole.
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdlib>

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "compat/symbol.h"

extern "C" {

// 2.32. False says that there may be several threads, which is never wrong.
extern const char uroce_single_threaded UROCE_SYMBOL(__libc_single_threaded);
const char uroce_single_threaded = 0;

// 2.34. Kernels before 5.9 do not have the call.
int uroce_close_range(unsigned first, unsigned last, int flags) UROCE_SYMBOL(close_range);
int uroce_close_range(unsigned first, unsigned last, int flags) {
  constexpr long kCloseRange = 436;
  const long result = syscall(kCloseRange, first, last, flags);
  if (result == 0 || errno != ENOSYS || flags != 0) return static_cast<int>(result);
  DIR* const folder = opendir("/proc/self/fd");
  if (folder == nullptr) return -1;
  while (const dirent* const entry = readdir(folder)) {
    const auto fd = static_cast<unsigned>(std::atoi(entry->d_name));
    if (entry->d_name[0] != '.' && fd >= first && fd <= last && static_cast<int>(fd) != dirfd(folder)) {
      close(static_cast<int>(fd));
    }
  }
  closedir(folder);
  return 0;
}

// 2.36, for std::random_device.
uint32_t uroce_arc4random() UROCE_SYMBOL(arc4random);
uint32_t uroce_arc4random() {
  uint32_t value = 0;
  while (getrandom(&value, sizeof(value), 0) != sizeof(value)) {
    if (errno != EINTR) std::abort();
  }
  return value;
}

// 2.38: as the functions of C17, which do not know the prefix 0b of C23.
long c17_strtol(const char* text, char** end, int base) asm("strtol");
unsigned long c17_strtoul(const char* text, char** end, int base) asm("strtoul");
long long c17_strtoll(const char* text, char** end, int base) asm("strtoll");
unsigned long long c17_strtoull(const char* text, char** end, int base) asm("strtoull");
int c99_vsscanf(const char* text, const char* format, va_list values) asm("__isoc99_vsscanf");

long uroce_strtol(const char* text, char** end, int base) UROCE_SYMBOL(__isoc23_strtol);
unsigned long uroce_strtoul(const char* text, char** end, int base) UROCE_SYMBOL(__isoc23_strtoul);
long long uroce_strtoll(const char* text, char** end, int base) UROCE_SYMBOL(__isoc23_strtoll);
unsigned long long uroce_strtoull(const char* text, char** end, int base) UROCE_SYMBOL(__isoc23_strtoull);
int uroce_vsscanf(const char* text, const char* format, va_list values) UROCE_SYMBOL(__isoc23_vsscanf);
int uroce_sscanf(const char* text, const char* format, ...) UROCE_SYMBOL(__isoc23_sscanf);

long uroce_strtol(const char* text, char** end, int base) { return c17_strtol(text, end, base); }
unsigned long uroce_strtoul(const char* text, char** end, int base) { return c17_strtoul(text, end, base); }
long long uroce_strtoll(const char* text, char** end, int base) { return c17_strtoll(text, end, base); }
unsigned long long uroce_strtoull(const char* text, char** end, int base) { return c17_strtoull(text, end, base); }
int uroce_vsscanf(const char* text, const char* format, va_list values) { return c99_vsscanf(text, format, values); }
int uroce_sscanf(const char* text, const char* format, ...) {
  va_list values;
  va_start(values, format);
  const int count = c99_vsscanf(text, format, values);
  va_end(values);
  return count;
}

#ifdef DLFO_STRUCT_HAS_EH_DBASE
// 2.35. The unwinder of libgcc finds the tables of a function by it.
int uroce_find_object(void* pc, dl_find_object* result) UROCE_SYMBOL(_dl_find_object);
#endif

}  // extern "C"

#ifdef DLFO_STRUCT_HAS_EH_DBASE
namespace {

struct Search {
  uintptr_t pc;
  dl_find_object* result;
};

int look_in(dl_phdr_info* info, std::size_t, void* data) {
  const auto& search = *static_cast<const Search*>(data);
  bool inside = false;
  dl_find_object found{};
  for (const ElfW(Phdr)* header = info->dlpi_phdr; header != info->dlpi_phdr + info->dlpi_phnum; ++header) {
    const uintptr_t begin = info->dlpi_addr + header->p_vaddr, end = begin + header->p_memsz;
    if (header->p_type == PT_GNU_EH_FRAME) found.dlfo_eh_frame = reinterpret_cast<void*>(begin);
    if (header->p_type != PT_LOAD || search.pc < begin || search.pc >= end) continue;
    inside = true;
    found.dlfo_map_start = reinterpret_cast<void*>(begin);
    found.dlfo_map_end = reinterpret_cast<void*>(end);
  }
  if (!inside) return 0;
  if (found.dlfo_eh_frame == nullptr) return -1;
  *search.result = found;
  return 1;
}

}  // namespace

extern "C" int uroce_find_object(void* pc, dl_find_object* result) {
  Search search{.pc = reinterpret_cast<uintptr_t>(pc), .result = result};
  return dl_iterate_phdr(look_in, &search) > 0 ? 0 : -1;
}
#endif
