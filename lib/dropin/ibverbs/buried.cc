#include "dropin/ibverbs/buried.h"

#include <array>
#include <atomic>
#include <cstddef>

namespace uroce::dropin::validation::detail {

bool active = false;

void bury(void* memory) {
  constexpr std::size_t kMostBuried = 4096;
  static std::array<std::atomic<void*>, kMostBuried> graves{};
  static std::atomic<std::size_t> next{0};
  ::operator delete(graves[next++ % kMostBuried].exchange(memory));
}

}  // namespace uroce::dropin::validation::detail
