// A queue: one RDMA connection of a host, from the receives for command capsules to the SENDs of the responses.
//
//   capsule -> start() -> [fetch(): RDMA READ] -> run() -> [backend] -> finish(): [RDMA WRITE,] SEND -> release()
//
// It leads each request through the parts, which do not know one another: the link, the dispatcher and the I/O runner.
// One thread. poll() allocates nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/counter.h"
#include "base/time.h"
#include "nvmf/buffer_pool.h"
#include "nvmf/command_dispatcher.h"
#include "nvmf/io_runner.h"
#include "nvmf/queue_link.h"
#include "nvmf/request.h"
#include "nvmf/target.h"

namespace uroce::nvmf {

/// The I/O queues of one reactor so far. Its thread writes, and any thread reads.
struct alignas(64) QueueCounters {
  Counter queues;         ///< opened
  Counter commands;       ///< answered
  Counter bytes_read;     ///< of those that succeeded
  Counter bytes_written;  ///< the same, of the host's data
};

/// Parts that all queues of a reactor share.
struct Shared {
  Target& target;
  IoRing& ring;
  BufferPool& pool;
  QueueCounters& counters;
};

class Queue final : private IoClient, private BufferTaker {
 public:
  /// Terms of the RDMA connection.
  struct Terms {
    uint16_t queue_id = 0;  ///< 0: admin
    uint32_t entries = 0;   ///< commands that the host may have outstanding
    Portal portal{};        ///< where the host connected to
    std::string host{};     ///< its address: its queues share what it may have of the pool
  };

  /// Its queue pair is in RESET. Errors: those of the device's objects.
  static Result<std::unique_ptr<Queue>> create(Device& device, const Shared& shared, const Terms& terms, Nanos now);
  ~Queue() override;
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  QueuePair& qp() { return link_.qp(); }
  /// Posts all receives: once, when the queue pair is in INIT.
  Result<void> post_receives() { return link_.post_receives(); }

  /// Handles completions. True when there was one.
  bool poll(Nanos now);
  /// Now and then: tells the host of an event that is due, and closes a queue whose controller has ended, whose host is
  /// silent, or that never sent a Connect. Asks a host that has been silent for long whether it is there.
  void check(Nanos now);
  /// Ends the queue pair, and for an admin queue the controller. Backends may still work on its requests.
  void close();
  bool closed() const { return closed_; }
  /// The host has sent Connect.
  bool connected() const { return commands_.connected(); }
  /// And a `hosts` list names it.
  bool listed() const { return commands_.listed(); }
  /// Closed, and nothing refers to it any more.
  bool finished() const { return closed_ && io_.idle(); }

 private:
  Queue(QueueLink link, const Shared& shared, const Terms& terms, Nanos now);

  bool is_admin() const { return queue_id_ == 0; }
  void on_ended(const QueueLink::Ended& ended);
  void on_capsule(Capsule capsule);
  void start(Request& request, uint32_t bytes);
  void fetch(Request& request, std::byte* buffer);
  void take_buffer(Request& request, std::byte* buffer) override { fetch(request, buffer); }
  void run(Request& request);
  void run_fabrics(Request& request);
  void run_admin(Request& request);
  void run_abort(Request& request);
  void end_held();
  void tell_event();
  void run_io(Request& request);
  void run_ranges(Request& request);
  // Not inlined, so that it does not burden the path of reads and writes.
  [[gnu::noinline]] void next_range(Request& request);
  void done(Io& io, int error) override;
  void finish(Request& request, const Reply& reply);
  void count(const Request& request, nvme::Status status);
  void release(Request& request);

  const uint16_t queue_id_;
  BufferPool& pool_;
  BufferPool::Share& share_;
  QueueCounters& counters_;
  QueueLink link_;
  CommandDispatcher commands_;
  IoRunner io_;
  Requests requests_;
  bool closed_ = false;
  Nanos now_;
};

}  // namespace uroce::nvmf
