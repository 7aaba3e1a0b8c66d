// For a process that lives on in the memory of another, whose threads were killed at any instruction.
#pragma once

#include <mutex>

namespace uroce {

/// The calling thread is the only one that there is. Afterwards `mutex` is free. True: a dead thread had it, so what it
/// guards may be half changed.
///
/// The C library's ordinary mutexes know no owner, so that any thread can unlock them.
inline bool free_of_dead_owner(std::mutex& mutex) {
  const bool owned = !mutex.try_lock();
  mutex.unlock();
  return owned;
}

}  // namespace uroce
