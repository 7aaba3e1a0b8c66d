// One direction of traffic between two QPs, with an oracle that knows what every byte must become.
//
// The oracle is a shadow of each memory that the flow changes, updated in posting order: RC executes in order and
// exactly once, so whatever the network does, memory must end up equal to the shadow. A WRITE run twice would undo a
// later overlapping one; an atomic run twice would shift every result after it.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "base/random.h"
#include "tests/support/test_endpoint.h"

namespace uroce::test {

struct FlowOptions {
  uint32_t max_message = 8192;  ///< bytes
  uint32_t recv_depth = 32;     ///< receives kept posted
  uint32_t area = 1 << 16;      ///< bytes of each memory that messages go to and come from
  bool signal_all = false;
  bool fences = true;
  /// The posted requests do not depend on the time of posting: outcome() of two runs may be compared.
  bool same_at_any_pace = false;
};

/// The memory that an operation's entries name.
enum class LocalMemory : uint8_t {
  region,       ///< registered as long as the flow lives
  null_region,  ///< half of the entries name a null region: zeros to send, nowhere to write
  on_demand,    ///< registered when the operation is posted, until it has completed
};

/// An operation to post. Random flows draw these, exhaustive tests list them.
struct Op {
  WrOpcode opcode = WrOpcode::send;
  uint32_t length = 0;
  bool signaled = true;
  bool fence = false;
  bool inline_data = false;
  bool solicited = false;
  LocalMemory local = LocalMemory::region;
  bool zero_based = false;  ///< remote addresses begin at 0, as those of device memory do
};
Op random_op(Random& random, const FlowOptions& options);

class Flow {
 public:
  Flow(TestEndpoint& from, TestQp& from_qp, TestCq& send_cq, TestEndpoint& to, TestQp& to_qp, TestCq& recv_cq,
       const FlowOptions& options, uint64_t seed);

  /// Posts one operation. False when the send queue is full: nothing happened.
  bool post(const Op& op);
  /// Keeps at most `most` receives posted at the far side.
  void post_receives(uint32_t most);
  /// Takes completions of both sides and checks them. Returns whether there were any.
  bool poll();
  /// Compares all memory with the oracle. Only when everything posted has completed with success.
  void check_memory();

  bool idle() const { return posted_.empty(); }
  /// The QP failed; the rest was, or is being, flushed.
  bool failed() const { return failure_.has_value(); }
  std::optional<WcStatus> failure() const { return failure_; }
  WrOpcode failed_opcode() const { return failed_opcode_; }
  /// The first broken invariant; empty when all hold.
  const std::string& violation() const { return violation_; }
  std::string describe_oldest() const;
  /// A hash of all completions, each queue's in order and without their times, and of all memory that was changed.
  uint64_t outcome() const;
  uint64_t completed() const { return completed_; }
  uint32_t receives_posted() const { return receives_posted_; }

 private:
  struct Posted {
    uint64_t wr_id;
    Op op;
    uint32_t result_cell = 0;  // atomics
    uint64_t original = 0;
    std::vector<memory::Key> keys{};  // LocalMemory::on_demand
  };
  struct Message {
    WrOpcode opcode;
    std::vector<std::byte> payload;
    uint32_t imm_or_key;
  };
  /// Memory of the far side, by its own addresses and by those from 0 on.
  struct Target {
    TestRegion& region;
    memory::Key zero_based_key;
  };

  void violate(const std::string& what);
  std::vector<Sge> gather(Random& random, TestRegion& region, uint64_t offset, uint32_t length);
  Target make_target(TestEndpoint& to, std::size_t bytes, AccessFlags access);
  void aim(SendRequest& request, const Op& op, const Target& target, uint64_t offset);
  void place_locally(Posted& posted, TestRegion& region, std::vector<Sge>& sges);
  std::vector<std::byte> payload_of(const SendRequest& request, uint32_t length);
  void prepare(const Op& op, SendRequest& request, Posted& posted, std::vector<Sge>& sges);
  void apply(const SendRequest& request, const Op& op, Posted& posted);
  void pop_posted();
  uint64_t result_at(uint32_t cell);
  void on_send_cqe(const queues::Cqe& cqe);
  void on_success(const queues::Cqe& cqe);
  void check_atomic(const Posted& posted);
  memory::Key make_invalidatable();
  void check_invalidated(memory::Key key);
  void on_recv_cqe(const queues::Cqe& cqe);

  TestQp& from_qp_;
  TestCq& send_cq_;
  TestQp& to_qp_;
  TestCq& recv_cq_;
  FlowOptions options_;
  Random random_;
  Random receive_random_;   // same_at_any_pace
  TestRegion& source_;      // never changes; SENDs and WRITEs carry it
  Target write_place_;      // far side, WRITEs
  Target read_source_;      // far side, never changes
  TestRegion& read_place_;  // near side
  Target counters_;         // far side, atomics
  TestRegion& results_;     // near side, atomics
  TestRegion& inbox_;       // far side, receives
  memory::RegionTable& near_keys_;
  memory::RegionTable& far_keys_;
  memory::Key null_key_;  // near side
  std::vector<std::byte> write_shadow_;
  std::vector<std::byte> read_shadow_;
  std::vector<uint64_t> counter_shadow_;
  uint64_t source_offset_ = 0;  // of the operation being prepared
  uint64_t remote_offset_ = 0;  // likewise

  std::deque<Posted> posted_;
  std::deque<Message> messages_;
  std::optional<WcStatus> failure_;
  WrOpcode failed_opcode_{};
  std::string violation_;
  uint64_t send_hash_ = 0;  // of completions
  uint64_t recv_hash_ = 0;
  uint64_t next_wr_ = 1;
  uint64_t next_recv_ = 0;
  uint64_t next_recv_done_ = 0;
  uint32_t receives_posted_ = 0;
  uint32_t since_signal_ = 0;
  uint64_t atomics_ = 0;
  uint64_t completed_ = 0;
};

}  // namespace uroce::test
