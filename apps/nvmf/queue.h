// A queue: one RDMA connection of a host, from the receives for command capsules to the SENDs of the responses.
//
//   capsule -> start() -> [fetch(): RDMA READ] -> run() -> [backend] -> finish(): [RDMA WRITE,] SEND -> release()
//
// One thread. poll() allocates nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <uroce/verbs.h>

#include "base/counter.h"
#include "base/time.h"
#include "nvmf/backend.h"
#include "nvmf/buffer_pool.h"
#include "nvmf/capsule.h"
#include "nvmf/controller.h"
#include "nvmf/io_command.h"
#include "nvmf/queue_memory.h"
#include "nvmf/target.h"

namespace uroce::nvmf {

/// An RDMA device with what all its queues on one reactor share.
struct Device {
  Context context;
  ProtectionDomain pd;
  MemoryRegion buffers;  ///< the pool's memory
  int engine;            ///< of the queue pairs (QpInit::engine)
};

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

class Queue final : public IoClient, private DiscoveryLog {
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

  QueuePair& qp() { return *qp_; }
  uint16_t id() const { return terms_.queue_id; }
  /// Posts all receives: once, when the queue pair is in INIT.
  Result<void> post_receives();

  /// Handles completions. True when there was one.
  bool poll(Nanos now);
  /// Now and then: closes a queue whose controller has ended, whose host is silent, or that never sent a Connect. Asks
  /// a host that has been silent for long whether it is there.
  void check(Nanos now);
  /// Ends the queue pair, and for an admin queue the controller. Backends may still work on its requests.
  void close();
  bool closed() const { return closed_; }
  /// The host has sent Connect.
  bool connected() const { return controller_ != nullptr; }
  /// Closed, and nothing refers to it any more.
  bool finished() const { return closed_ && ios_ == 0; }

 private:
  /// One command from its capsule to the completion of its response.
  struct Request final : Io, BufferPool::Waiter {
    enum class Stage : uint8_t { free, waiting, reading, backend, held, responding };
    void buffer_ready(std::byte* ready) override { queue->fetched_buffer(*this, ready); }

    Queue* queue = nullptr;
    Request* next_free = nullptr;
    std::byte* buffer = nullptr;  ///< of the pool; null without one
    nvme::Command command{};
    Transfer transfer{};
    IoPlan plan{};
    uint32_t data_bytes = 0;  ///< that move between host and target
    uint32_t range = 0;       ///< of Dataset Management: the next one
    uint16_t slot = 0;        ///< its receive
    Stage stage = Stage::free;
  };
  enum class Work : uint8_t { receive, read, respond, probe };

  Queue(Device& device, const Shared& shared, const Terms& terms, QueueMemory memory, MemoryRegion region,
        CompletionQueue cq, QueuePair qp, Nanos now);

  void on_completion(const Completion& completion);
  void on_capsule(uint16_t slot, uint32_t bytes);
  void start(Request& request, uint32_t bytes);
  /// Bytes that the command moves, or why it cannot run.
  std::expected<uint32_t, nvme::Status> measure(Request& request);
  void fetched_buffer(Request& request, std::byte* buffer);
  void run(Request& request);
  void run_fabrics(Request& request);
  void run_connect(Request& request);
  void run_admin(Request& request);
  void run_abort(Request& request);
  void end_held();
  void run_io(Request& request);
  void next_range(Request& request);
  void done(Io& io, int error) override;
  void finish(Request& request, const Reply& reply);
  void count(const Request& request, nvme::Status status);
  bool post_receive(uint16_t slot);
  void release(Request& request);
  void probe(Nanos now);
  void read(std::string_view host_nqn, uint64_t offset, std::span<std::byte> out) const override;

  Device& device_;
  const Shared shared_;
  const Terms terms_;
  BufferPool::Share& share_;
  // Torn down from the last to the first.
  QueueMemory memory_;
  MemoryRegion region_;
  CompletionQueue cq_;
  std::optional<QueuePair> qp_;
  std::shared_ptr<Controller> controller_{};
  uint32_t joined_at_ = 0;  ///< Controller::resets() when it did
  std::vector<Request> requests_;
  Request* first_free_ = nullptr;
  /// Capsules that wait for a request: a host whose acknowledgements are late. A ring of slots.
  std::vector<std::pair<uint16_t, uint32_t>> late_;
  uint32_t late_head_ = 0, late_count_ = 0;
  uint32_t ios_ = 0;  ///< requests that a backend works on
  uint32_t sq_entries_ = 1, sq_head_ = 0;
  bool sq_flow_control_ = true;
  bool closed_ = false;
  bool probing_ = false;
  Nanos now_;
  Nanos next_probe_{};
  const Nanos connect_limit_;
};

}  // namespace uroce::nvmf
