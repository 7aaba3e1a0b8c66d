// Interrupt handles for anyone but drivers: experimental in DPDK 22.11, stable later.
#define ALLOW_EXPERIMENTAL_API

#include "pmd_glue/interrupt_thread.h"

#include <rte_interrupts.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <chrono>
#include <semaphore>

namespace uroce::glue {

namespace {

struct Parking {
  int fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);  // readable from the start
  std::binary_semaphore held{0};
  std::binary_semaphore never{0};
};

void hold(void* argument) {
  auto* parking = static_cast<Parking*>(argument);
  parking->held.release();
  while (true) parking->never.acquire();
}

}  // namespace

void park_interrupt_thread() {
  static auto* parking = new Parking;  // outlives the process's static objects, as the thread does
  // Private: a handle outside EAL's memory.
  rte_intr_handle* handle = rte_intr_instance_alloc(RTE_INTR_INSTANCE_F_PRIVATE);
  if (handle == nullptr) return;
  const bool set = rte_intr_fd_set(handle, parking->fd) == 0 && rte_intr_type_set(handle, RTE_INTR_HANDLE_EXT) == 0 &&
                   rte_intr_callback_register(handle, hold, parking) == 0;
  rte_intr_instance_free(handle);
  // A thread that does not come within a second is stuck in a driver, and will not read its sources either.
  if (set) (void)parking->held.try_acquire_for(std::chrono::seconds(1));
}

}  // namespace uroce::glue
