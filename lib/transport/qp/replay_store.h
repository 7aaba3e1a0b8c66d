// READs and atomics that were executed, kept so that a duplicate gets the same response, and the responses that wait to
// be sent (IBTA vol. 1, 9.7.5.1.2).
#pragma once

#include <algorithm>
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
  uint64_t atomic_result = 0;
  uint32_t rkey = 0;
  uint32_t length = 0;
  memory::PdId pd = 0;  ///< in which the keys are checked
  uint32_t msn : 24 = 0;
  bool atomic : 1 = false;
  bool busy : 1 = false;  ///< its original response has not been sent in full

  template <class Archive>
  void persist(Archive& archive) {
    auto& [first, count, address, result, key, bytes, domain, msn_, atomic_, busy_] = *this;
    uint32_t number = msn_;
    bool is_atomic = atomic_;
    bool is_busy = busy_;
    archive("packets", count);
    if (count == 0) return;  // it was never used
    archive("first_psn", first);
    archive("va", address);
    archive("rkey", key);
    archive("length", bytes);
    archive("atomic_result", result);
    archive("msn", number, 0, Psn::kMask);
    archive("pd", domain);
    archive("atomic", is_atomic);
    archive("busy", is_busy);
    msn_ = number & Psn::kMask;
    atomic_ = is_atomic;
    busy_ = is_busy;
  }
};
static_assert(sizeof(Resource) == 40, "a responder has up to 128 of them");

/// A READ response stream or an atomic ACK that waits its turn.
struct ResponseJob {
  static constexpr uint32_t kVoid = 0xff;
  static constexpr uint32_t kMostPackets = (1u << 24) - 1;
  uint32_t resource : 8 = 0;  ///< index into the store's resources; kVoid: given up
  uint32_t next : 24 = 0;     ///< next response packet, counted from the resource's first
  uint32_t end : 24 = 0;      ///< one past the last
  bool at_start : 1 = true;   ///< nothing sent yet: the next packet is a First or an Only
  bool original : 1 = true;   ///< false: a replay for a duplicate

  template <class Archive>
  void persist(Archive& archive) {
    auto& [resource_, next_, end_, at_start_, original_] = *this;
    uint32_t index = resource_;
    uint32_t at = next_;
    uint32_t until = end_;
    bool starts = at_start_;
    bool first_answer = original_;
    archive("resource", index, 0, kVoid);
    archive("next", at, 0, kMostPackets);
    archive("end", until, 0, kMostPackets);
    archive("at_start", starts);
    archive("original", first_answer);
    resource_ = index & kVoid;
    next_ = at & kMostPackets;
    end_ = until & kMostPackets;
    at_start_ = starts;
    original_ = first_answer;
  }
};
static_assert(sizeof(ResponseJob) == 8 && kMaxRdAtomic < ResponseJob::kVoid);
static_assert(kMaxMessage / mtu_bytes(Mtu::mtu256) <= ResponseJob::kMostPackets);

/// ResponseQueue alone queues and removes jobs. It holds what each packet needs to know of this store.
class ReplayStore {
 public:
  /// Takes the oldest slot, which is then busy. Nullptr: the peer has more outstanding than was agreed (9.7.4.1.7).
  Resource* add() {
    Resource* const added = reuse();
    if (added != nullptr) *added = Resource{.busy = true};
    return added;
  }
  /// As add(), for a caller that fills the whole slot, which has what it had, and makes it busy.
  Resource* reuse();
  std::vector<Resource>& resources() { return resources_; }
  const std::vector<Resource>& resources() const { return resources_; }
  uint32_t index_of(const Resource& resource) const { return static_cast<uint32_t>(&resource - resources_.data()); }

  /// Is there room for a replay beside all originals?
  bool has_room_for_duplicate() const { return waiting_ < jobs_.size() - resources_.size(); }
  /// Is there room for the response to each request that may still come? Always, but for what a snapshot says.
  bool has_room_for_originals() const {
    const auto free = std::ranges::count(resources_, false, [](const Resource& one) -> bool { return one.busy; });
    return waiting_ + static_cast<std::size_t>(free) <= jobs_.size();
  }
  bool has_jobs() const { return waiting_ != 0; }
  bool has_several_jobs() const { return waiting_ > 1; }
  /// Calls `visit(job)` for each waiting job, oldest first, until it returns true. Returns whether it did.
  template <class Visit>
  bool find_job(Visit&& visit) {
    for (uint32_t i = 0; i < waiting_; ++i) {
      if (visit(job_at(i))) return true;
    }
    return false;
  }

  template <class Archive>
  void persist(Archive& archive);

 private:
  friend class ResponseQueue;

  /// Room for `resources` READs and atomics, as many responses, and as many duplicates again. Forgets what was there,
  /// also the responses that wait.
  void resize(uint32_t resources) {
    resources_ = std::vector<Resource>(resources);
    jobs_ = std::vector<ResponseJob>(2u * resources + 2);
    next_ = head_ = waiting_ = again_ = 0;
  }
  void clear() {
    resources_.clear();
    next_ = 0;
    drop_jobs();
  }
  /// Queues packets [next, end) of the response to `resource`. There is room for every original.
  void push_job(const Resource& resource, uint32_t next, uint32_t end, bool original) {
    ResponseJob& job = job_at(waiting_++);
    if (!original) ++again_;
    job.resource = index_of(resource) & ResponseJob::kVoid;
    job.next = next & ResponseJob::kMostPackets;
    job.end = end & ResponseJob::kMostPackets;
    job.at_start = true;
    job.original = original;
  }
  ResponseJob& front_job() { return jobs_[head_]; }
  void pop_job() {
    if (!jobs_[head_].original) --again_;
    if (++head_ == jobs_.size()) head_ = 0;
    --waiting_;
  }
  void drop_jobs() { waiting_ = again_ = 0; }
  ResponseJob& job_at(uint32_t place) {
    const std::size_t at = std::size_t{head_} + place;
    return jobs_[at < jobs_.size() ? at : at - jobs_.size()];
  }

  std::vector<Resource> resources_;  // a ring of max_dest_rd_atomic
  std::vector<ResponseJob> jobs_;    // a ring
  uint32_t next_ = 0;
  uint32_t head_ = 0;
  uint32_t waiting_ = 0;
  uint32_t again_ = 0;  // of those that wait, the responses to duplicates
};

template <class Archive>
void ReplayStore::persist(Archive& archive) {
  auto& [resources, jobs, next, head, waiting, again] = *this;
  auto count = static_cast<uint32_t>(resources.size());
  archive("count", count, 0, kMaxRdAtomic);
  if constexpr (Archive::kReads) {
    resize(count);
  }
  archive.elements("resources", resources);
  archive("next", next, 0, count == 0 ? 0 : count - 1);
  archive("waiting", waiting, 0, static_cast<uint32_t>(jobs.size()));
  for (uint32_t i = 0; i < waiting; ++i) archive("jobs", job_at(i));
  if constexpr (Archive::kReads) {
    again = 0;
    find_job([&again](const ResponseJob& job) {
      again += job.original ? 0 : 1;
      return false;
    });
  }
}

inline Resource* ReplayStore::reuse() {
  if (resources_.empty()) return nullptr;
  Resource& resource = resources_[next_];
  if (resource.busy) return nullptr;
  // A replay from this slot is given up: the peer has sent more requests since than were agreed.
  if (again_ != 0) [[unlikely]] {
    find_job([this](ResponseJob& job) {
      if (job.resource == next_) job.resource = ResponseJob::kVoid;
      return false;
    });
  }
  if (++next_ == resources_.size()) next_ = 0;
  return &resource;
}

}  // namespace uroce::transport
