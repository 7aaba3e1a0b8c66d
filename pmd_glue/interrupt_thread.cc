// Interrupt handles for anyone but drivers: experimental in DPDK 22.11, stable later.
#define ALLOW_EXPERIMENTAL_API

#include "pmd_glue/interrupt_thread.h"

#include <rte_interrupts.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <semaphore>

namespace uroce::glue {

namespace {

/// A thread that does not answer for so long will not come to rest.
constexpr auto kPatience = std::chrono::seconds(1);

/// A source of interrupts of our own. Never unregistered: that would make the thread list its sources once more.
struct Knock {
  int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  std::binary_semaphore answered{0};
};

void answer(void* argument) {
  auto* knock = static_cast<Knock*>(argument);
  uint64_t count = 0;
  [[maybe_unused]] const auto got = read(knock->fd, &count, sizeof count);
  knock->answered.release();
}

}  // namespace

void settle_interrupt_thread() {
  static Knock knock;
  // Private: outside EAL's memory.
  rte_intr_handle* handle = rte_intr_instance_alloc(RTE_INTR_INSTANCE_F_PRIVATE);
  if (handle == nullptr) return;
  const bool set = rte_intr_fd_set(handle, knock.fd) == 0 && rte_intr_type_set(handle, RTE_INTR_HANDLE_EXT) == 0 &&
                   rte_intr_callback_register(handle, answer, &knock) == 0;
  rte_intr_instance_free(handle);
  if (!set) return;
  // The first answer may come from among other events, one of them "list the sources anew"; the second comes alone.
  for (int i = 0; i < 2; ++i) {
    const uint64_t one = 1;
    [[maybe_unused]] const auto written = write(knock.fd, &one, sizeof one);
    if (!knock.answered.try_acquire_for(kPatience)) return;
  }
}

}  // namespace uroce::glue
