#include <array>
#include <atomic>

#include "wire/crc/kernel.h"

#if defined(__aarch64__)
#include <sys/auxv.h>
#endif

namespace uroce::wire::crc {
namespace {

struct List {
  std::array<const Kernel*, 4> kernels{};
  std::size_t count = 0;

  void add(bool works, const Kernel& kernel) {
    if (works) kernels[count++] = &kernel;
  }
};

/// CPUID and the saved registers decide. Under valgrind CPUID is valgrind's, which knows no AVX-512.
List find_available() {
  List list;
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool wide = __builtin_cpu_supports("vpclmulqdq") != 0;
  const bool pclmul = __builtin_cpu_supports("pclmul") != 0 && __builtin_cpu_supports("sse4.2") != 0;
  list.add(wide && pclmul && __builtin_cpu_supports("avx512f") != 0, kAvx512Kernel);
  list.add(wide && pclmul && __builtin_cpu_supports("avx2") != 0, kAvx2Kernel);
  list.add(pclmul, kPclmulKernel);
#elif defined(__aarch64__)
  constexpr unsigned long kPmull = 1 << 4, kCrc32 = 1 << 7;  // HWCAP_PMULL, HWCAP_CRC32 of Linux
  const unsigned long features = getauxval(AT_HWCAP);
  list.add((features & kPmull) != 0 && (features & kCrc32) != 0, kPmullKernel);
#endif
  list.add(true, kTableKernel);
  return list;
}

const List& list() {
  static const List kList = find_available();
  return kList;
}

[[maybe_unused]] const bool kChosen = [] {
  use(*list().kernels[0]);
  return true;
}();

}  // namespace

/// The table until the constructors have run.
constinit std::atomic<const Kernel*> g_active{&kTableKernel};

std::span<const Kernel* const> available() { return std::span(list().kernels).first(list().count); }

const Kernel* find(std::string_view name) {
  if (name == "automatic") return available().front();
  for (const Kernel* kernel : available()) {
    if (kernel->name == name) return kernel;
  }
  return nullptr;
}

void use(const Kernel& kernel) { g_active.store(&kernel, std::memory_order_relaxed); }

}  // namespace uroce::wire::crc
