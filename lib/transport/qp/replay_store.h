// READs and atomics that were executed, kept so that a duplicate gets the same response, and the responses that wait to
// be sent (IBTA vol. 1, 9.7.5.1.2).
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include <uroce/types.h>

#include "base/psn.h"
#include "memory/region_table.h"

namespace uroce::transport {

/// A READ or atomic whose response was sent or is being sent.
struct Resource {
  Psn first_psn{};
  uint32_t packets = 0;
  uint64_t va = 0;
  uint32_t rkey = 0;
  uint32_t length = 0;
  uint64_t atomic_result = 0;
  uint32_t msn = 0;
  memory::PdId pd = 0;  ///< in which the keys are checked
  bool atomic = false;
  bool busy = false;  ///< its original response has not been sent in full

  template <class Archive>
  void persist(Archive& archive) {
    auto& [first, count, address, key, bytes, result, number, domain, is_atomic, is_busy] = *this;
    archive("first_psn", first);
    archive("packets", count);
    archive("va", address);
    archive("rkey", key);
    archive("length", bytes);
    archive("atomic_result", result);
    archive("msn", number);
    archive("pd", domain);
    archive("atomic", is_atomic);
    archive("busy", is_busy);
  }
};

/// A READ response stream or an atomic ACK that waits its turn.
struct ResponseJob {
  static constexpr uint32_t kVoid = UINT32_MAX;
  uint32_t resource = 0;  ///< index into the store's resources; kVoid: given up
  uint32_t next = 0;      ///< next response packet, counted from the resource's first
  uint32_t end = 0;       ///< one past the last
  bool at_start = true;   ///< nothing sent yet: the next packet is a First or an Only
  bool original = true;   ///< false: a replay for a duplicate

  template <class Archive>
  void persist(Archive& archive) {
    auto& [index, at, until, starts, first_answer] = *this;
    archive("resource", index);
    archive("next", at);
    archive("end", until);
    archive("at_start", starts);
    archive("original", first_answer);
  }
};

class ReplayStore {
 public:
  /// Room for `resources` READs and atomics, as many responses, and as many duplicates again. Forgets what was there,
  /// also the responses that wait.
  void resize(uint32_t resources) {
    resources_.assign(resources, Resource{});
    next_ = head_ = tail_ = 0;
    jobs_.assign(std::bit_ceil(2u * resources + 2), ResponseJob{});
  }
  void clear() {
    resources_.clear();
    next_ = 0;
    drop_jobs();
  }

  /// Takes the oldest slot, which is then busy. Nullptr: the peer has more outstanding than was agreed (9.7.4.1.7).
  Resource* add();
  std::vector<Resource>& resources() { return resources_; }
  const std::vector<Resource>& resources() const { return resources_; }
  uint32_t index_of(const Resource& resource) const { return static_cast<uint32_t>(&resource - resources_.data()); }

  /// Queues packets [next, end) of the response to `resource`. There is room for every original.
  void push_job(const Resource& resource, uint32_t next, uint32_t end, bool original) {
    jobs_[tail_++ & (jobs_.size() - 1)] = {index_of(resource), next, end, true, original};
  }
  /// Is there room for a replay beside all originals?
  bool has_room_for_duplicate() const { return tail_ - head_ < jobs_.size() - resources_.size(); }
  bool has_jobs() const { return head_ != tail_; }
  ResponseJob& front_job() { return jobs_[head_ & (jobs_.size() - 1)]; }
  void pop_job() { ++head_; }
  void drop_jobs() { head_ = tail_; }
  /// Calls `visit(job)` for each waiting job, oldest first, until it returns true. Returns whether it did.
  template <class Visit>
  bool find_job(Visit&& visit) {
    for (uint32_t at = head_; at != tail_; ++at) {
      if (visit(jobs_[at & (jobs_.size() - 1)])) return true;
    }
    return false;
  }

  template <class Archive>
  void persist(Archive& archive);

 private:
  std::vector<Resource> resources_;  // a ring of max_dest_rd_atomic
  std::vector<ResponseJob> jobs_;    // a ring, power of two
  uint32_t next_ = 0;
  uint32_t head_ = 0;
  uint32_t tail_ = 0;
};

template <class Archive>
void ReplayStore::persist(Archive& archive) {
  auto& [resources, jobs, next, head, tail] = *this;
  auto count = static_cast<uint32_t>(resources.size());
  auto waiting = tail - head;
  archive("count", count, 0, kMaxRdAtomic);
  if constexpr (Archive::kReads) {
    resize(count);
  }
  archive.elements("resources", resources);
  archive("next", next, 0, count == 0 ? 0 : count - 1);
  archive("waiting", waiting, 0, static_cast<uint32_t>(jobs.size()));
  tail = head + waiting;
  for (uint32_t at = head; at != tail; ++at) archive("jobs", jobs[at & (jobs.size() - 1)]);
}

inline Resource* ReplayStore::add() {
  if (resources_.empty()) return nullptr;
  Resource& resource = resources_[next_];
  if (resource.busy) return nullptr;
  // A replay from this slot is given up: the peer has sent more requests since than were agreed.
  find_job([this](ResponseJob& job) {
    if (job.resource == next_) job.resource = ResponseJob::kVoid;
    return false;
  });
  if (++next_ == resources_.size()) next_ = 0;
  resource = Resource{};
  resource.busy = true;
  return &resource;
}

}  // namespace uroce::transport
