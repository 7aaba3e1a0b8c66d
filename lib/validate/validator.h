// Finds misuses in a program's calls of verbs. The callers tell each call, and hold a lock of their own: one thread at
// a time. Objects that the validator was not told of are passed over.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <unordered_map>

#include <uroce/verbs/work_requests.h>

#include "validate/objects.h"
#include "validate/regions.h"

namespace uroce::validate {

/// A completion that the program takes.
struct Done {
  uint64_t wr_id = 0;
  uint32_t qpn = 0;
  bool success = false;
  bool receive = false;
};

class Validator {
 public:
  explicit Validator(ReadMemory reader) : reader_(reader) {}

  void add_cq(Id cq, const CqFacts& facts) { cqs_[cq] = {facts}; }
  void resize_cq(Id cq, uint32_t entries);
  void remove_cq(Id cq) { cqs_.erase(cq); }
  void add_srq(Id srq, const SrqFacts& facts);
  void remove_srq(Id srq);
  void add_qp(Id qp, const QpFacts& facts);
  void remove_qp(Id qp);
  void add_region(Key key, const Region& region) { regions_.add(key, region); }

  /// The queue pair's state now. RESET drops its requests.
  void set_state(Id qp, QpState state);
  /// The queue pair was made with send_ops_flags: a bit for each WrOpcode.
  void set_operations(Id qp, uint64_t opcodes);
  void set_max_rd_atomic(Id qp, uint8_t most);
  /// Checks a call of ibv_modify_qp() before it is made.
  Found modify(Id qp, QpState from, QpState to, QpAttrMask mask) const;
  /// Before a region is deregistered, or gets other memory.
  Found region_goes(Key key, const char* call) const;
  void remove_region(Key key) { regions_.remove(key); }
  /// Before an address handle is destroyed.
  Found ah_goes(Id device, uint32_t ah) const;

  /// Before a send is posted, in the order of the queue. It counts as posted until unpost_send() takes it back.
  Found post_send(Id qp, const SendRequest& request);
  void unpost_send(Id qp, std::size_t newest);
  /// The same for receives, of a queue pair or a shared receive queue.
  Found post_receive(Id qp, const RecvRequest& request);
  void unpost_receive(Id qp, std::size_t newest);
  Found post_srq_receive(Id srq, const RecvRequest& request);
  void unpost_srq_receive(Id srq, std::size_t newest);
  /// Before the program sees a completion.
  Found completed(Id cq, const Done& done);

  bool knows_queue(Id queue) const;
  uint64_t requests() const { return requests_; }

 private:
  Found complete_send(Qp& qp, const Done& done);
  void complete_receive(Id cq, Qp* qp, const Done& done);
  void end(Pending& pending);
  void end_all(Qp& qp);
  void expect(Id cq, int64_t completions);
  void check_room(Id cq, const std::string& name, Found& found) const;
  void hold(Id device, std::span<const Sge> sges, Pending& pending, const std::string& name, Found& found);
  Pending receive_of(const Owner& owner, uint32_t max_sge, const RecvRequest& request, const std::string& name,
                     Found& found);
  std::vector<Bytes> bytes_of(Id device, std::span<const Sge> sges) const;

  const ReadMemory reader_;
  Regions regions_;
  Buffers buffers_;
  std::unordered_map<Id, Cq> cqs_;
  std::unordered_map<Id, Srq> srqs_;
  std::unordered_map<Id, Qp> qps_;
  std::map<std::pair<Id, uint32_t>, Id> by_number_;  ///< by device and queue pair number
  uint64_t requests_ = 0;
};

}  // namespace uroce::validate
