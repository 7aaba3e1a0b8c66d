// The loop of one lcore: the stack, its queues and io_uring in turn. Queues come from the first reactor, and stay.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/time.h"
#include "nvmf/buffer_pool.h"
#include "nvmf/handover.h"
#include "nvmf/io_ring.h"
#include "nvmf/network.h"
#include "nvmf/queue.h"
#include "nvmf/target.h"

namespace uroce::nvmf {

/// One thread at a time, but for orders() and counters().
class Reactor {
 public:
  /// Reactor `index`, from 0. The others outlive it. Errors: those of its parts.
  static Result<std::unique_ptr<Reactor>> make(uint32_t index, Network& network, Target& target, Reports& reports,
                                               uint32_t buffers);
  /// Waits for disks, which are told to cancel what they do, and ends the process when one does not for 10 s.
  ~Reactor();
  Reactor(const Reactor&) = delete;
  Reactor& operator=(const Reactor&) = delete;

  /// One pass. True when there was work. Never waits for the network or a disk.
  bool poll(Nanos now);
  /// After a pass without work: gives the core away, for a moment.
  void rest();
  /// After one with work.
  void stay_awake() { idle_passes_ = 0; }
  /// Any thread puts in.
  Orders& orders() { return orders_; }
  /// Any thread.
  const QueueCounters& counters() const { return counters_; }

 private:
  struct Entry {
    uint32_t number;
    std::unique_ptr<Queue> queue;
    bool connected = false;  ///< and Connected is reported
  };

  Reactor(uint32_t index, Network& network, Target& target, Reports& reports, IoRing ring, BufferPool pool)
      : index_(index),
        network_(network),
        target_(target),
        reports_(reports),
        ring_(std::move(ring)),
        pool_(std::move(pool)) {}

  void obey(Nanos now);
  void open(const Open& order, Nanos now);
  Result<std::unique_ptr<Queue>> make_queue(const Open& order, Nanos now);
  void close(const Close& order);
  void report(Report report);
  Result<Device*> device(const std::string& name);
  /// True when a queue has gone.
  bool check(Nanos now);

  const uint32_t index_;
  Network& network_;
  Target& target_;
  Reports& reports_;
  Orders orders_;
  QueueCounters counters_;
  IoRing ring_;
  BufferPool pool_;
  std::map<std::string, std::unique_ptr<Device>> devices_{};
  std::vector<Entry> queues_{};
  Nanos next_check_{};
  uint32_t idle_passes_ = 0;
};

}  // namespace uroce::nvmf
