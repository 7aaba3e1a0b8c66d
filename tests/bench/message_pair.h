// Two engines in one process and in virtual time, and messages between their queue pairs: what bench_engine times and
// what tests/bench/instructions counts.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "tests/support/test_endpoint.h"

namespace uroce::bench {

/// A sink that writes whole frames into memory made once, as a PMD that copies does.
class MemorySink : public transport::FrameSink {
 public:
  std::size_t room() override { return kSlots - used_; }
  void send(std::span<const transport::TxFrame> frames) override;
  /// The frames sent since the last call. They stay until the next send().
  std::span<const transport::RxFrame> take();

 private:
  static constexpr std::size_t kSlots = 256;
  static constexpr std::size_t kSlotBytes = 4352;

  std::unique_ptr<std::byte[]> memory_ = std::make_unique<std::byte[]>(kSlots * kSlotBytes);
  std::array<transport::RxFrame, kSlots> frames_{};
  std::size_t used_ = 0;
};

/// `nothing`: a message is a poll of both engines that find nothing, after WRITEs whose ACK timers may still run.
enum class Operation : uint8_t { write, read, send, atomic, ud_send, nothing };

struct Traffic {
  Operation operation = Operation::write;
  uint32_t bytes = 8;        ///< of a message
  uint32_t queue_pairs = 1;  ///< they take turns
  uint32_t batch = 32;       ///< messages posted before the engines are polled; the last of each is signaled
  Retransmission retransmission = Retransmission::go_back_n;
  CongestionAlgorithm congestion = CongestionAlgorithm::none;
  bool local = false;       ///< frames go as descriptors, not over a network
  bool shared = false;      ///< receives are of one shared queue
  bool outlivable = false;  ///< the engines mark their steps, as those of a daemon that recovers from crashes
  bool recorded = false;    ///< flight recorders keep what both engines do (lib/record)
};

/// A sink of an engine that shares its thread with the receiver: it hands descriptors over, and keeps nothing.
class LocalSink : public transport::FrameSink {
 public:
  std::size_t room() override { return 64; }
  void send(std::span<const transport::TxFrame> frames) override;
  /// `receiver` outlives the sink's last send().
  void set_receiver(transport::Engine& receiver) { receiver_ = &receiver; }
  void set_time(Nanos now) { now_ = now; }
  /// True when frames were sent since the last call.
  bool take_sent() { return std::exchange(sent_, false); }

 private:
  transport::Engine* receiver_ = nullptr;
  Nanos now_{0};
  bool sent_ = false;
};

/// The left engine requests, the right one responds, over a network that loses nothing and takes 500 ns each way, or
/// without one (Traffic::local). Both run on the calling thread. Path MTU 4096.
class MessagePair {
 public:
  /// Ends the program with a sentence when something cannot be set up.
  explicit MessagePair(const Traffic& traffic);

  /// Posts a batch, or less where send queues are full and at most `most`, lets both engines work once, and takes the
  /// completions. Returns the number of messages posted.
  uint32_t round(uint64_t most = ~uint64_t{0});
  /// Posts exactly `messages`, a multiple of the batch, and returns when they have completed and no frame moves any
  /// more.
  void run(uint64_t messages);
  /// The messages of Operation::nothing.
  void poll_in_vain(uint64_t messages);
  bool is_idle() const { return traffic_.operation == Operation::nothing; }
  /// True when each queue pair has settled on its way to recover from loss.
  bool settled() const;

 private:
  void make_queue_pairs();
  void make_request();
  bool post();
  void post_receive(uint32_t index);
  /// True when any frame moved.
  bool exchange();
  bool exchange_locally();
  void take_completions();

  const Traffic traffic_;
  const uint32_t depth_;  ///< entries of each send and receive queue: four batches over all queue pairs
  test::TestEndpoint left_;
  test::TestEndpoint right_;
  MemorySink rightward_;
  MemorySink leftward_;
  LocalSink local_rightward_;
  LocalSink local_leftward_;
  test::TestCq* send_cq_ = nullptr;
  test::TestCq* recv_cq_ = nullptr;
  test::TestRegion* source_ = nullptr;
  test::TestRegion* target_ = nullptr;
  std::vector<test::TestQp*> from_;
  std::vector<test::TestQp*> to_;
  SendRequest request_{};
  Sge sge_{};
  Sge receive_sge_{};
  Nanos now_{0};
  uint64_t posted_ = 0;
  uint64_t completed_ = 0;  ///< signaled messages
  std::size_t next_ = 0;    ///< queue pair of the next message
  bool busy_ = false;       ///< the last round moved a frame
};

}  // namespace uroce::bench
