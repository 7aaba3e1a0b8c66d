// Memory of the application that the peer may write to directly (riomap(), riounmap()).
#pragma once

#include <infiniband/verbs.h>
#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <mutex>
#include <vector>

#include "dropin/rsocket/wire.h"

namespace uroce::dropin::rsocket {

/// Any thread.
class Mappings {
 public:
  /// The peer's table has so many entries.
  void set_entries(uint32_t entries) { used_.assign(entries, false); }
  /// Values and errors are those of riomap() and riounmap().
  off_t map(ibv_pd* pd, void* buffer, std::size_t length, int protection, off_t offset);
  int unmap(void* buffer, std::size_t length);

  /// The peer's table lacks a mapping.
  bool unsent() const { return unsent_; }
  /// Calls `send(index, entry)` for each that it lacks, until it returns other than 0. Returns 0, or -1.
  template <class Send>
  int send_unsent(Send send) {
    const std::lock_guard lock(mutex_);
    for (Mapped& each : mapped_) {
      if (each.advertised) continue;
      if (send(static_cast<uint32_t>(each.index), entry_of(each)) != 0) return -1;
      each.advertised = true;
    }
    unsent_ = false;
    return 0;
  }

  std::mutex& mutex() { return mutex_; }
  /// Ends all. The caller holds mutex().
  void clear();

 private:
  struct Mapped {
    off_t offset = 0;
    ibv_mr* mr = nullptr;
    int index = -1;  ///< in the peer's table; -1 when it was not sent
    bool advertised = true;
  };
  static wire::Mapping entry_of(const Mapped& mapped);

  std::mutex mutex_;
  std::list<Mapped> mapped_;
  std::vector<bool> used_;
  std::atomic<bool> unsent_{false};
};

}  // namespace uroce::dropin::rsocket
