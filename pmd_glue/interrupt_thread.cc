#include "pmd_glue/interrupt_thread.h"

#include <rte_alarm.h>
#include <rte_interrupts.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <semaphore>
#include <utility>

namespace uroce::glue {

namespace {

/// One call. The caller and the interrupt thread both own it, because either may finish first.
struct Call {
  std::function<int()> work;
  std::atomic<bool> taken{false};  ///< set by the side that decides whether the work runs
  int result = 0;
  std::binary_semaphore done{0};
};

void run_call(void* argument) {
  const std::unique_ptr<std::shared_ptr<Call>> call(static_cast<std::shared_ptr<Call>*>(argument));
  if ((*call)->taken.exchange(true)) return;
  (*call)->result = (*call)->work();
  (*call)->done.release();
}

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

std::optional<int> on_interrupt_thread(std::function<int()> work, std::chrono::nanoseconds timeout) {
  const auto call = std::make_shared<Call>();
  call->work = std::move(work);
  auto* const handed = new std::shared_ptr<Call>(call);  // owned by the alarm; leaked when the thread never runs it
  if (rte_eal_alarm_set(1, run_call, handed) != 0) {
    delete handed;
    return call->work();
  }
  if (call->done.try_acquire_for(timeout)) return call->result;
  if (!call->taken.exchange(true)) return std::nullopt;
  // The work may have ended at this very moment.
  if (call->done.try_acquire()) return call->result;
  return std::nullopt;
}

// Interrupt handles outside of drivers are experimental in DPDK 22.11, and stable later.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
bool park_interrupt_thread() {
  static auto* parking = new Parking;  // lives longer than static objects, like the thread
  // A private handle is outside EAL's memory.
  rte_intr_handle* handle = rte_intr_instance_alloc(RTE_INTR_INSTANCE_F_PRIVATE);
  if (handle == nullptr) return true;
  const bool set = rte_intr_fd_set(handle, parking->fd) == 0 && rte_intr_type_set(handle, RTE_INTR_HANDLE_EXT) == 0 &&
                   rte_intr_callback_register(handle, hold, parking) == 0;
  rte_intr_instance_free(handle);
  return !set || parking->held.try_acquire_for(std::chrono::seconds(1));
}
#pragma GCC diagnostic pop

}  // namespace uroce::glue
