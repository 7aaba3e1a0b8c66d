// Behind the handles of shared receive queues, and of XRC domains.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

#include <uroce/error.h>
#include <uroce/types.h>

#include "client/flush.h"
#include "client/object.h"
#include "queues/place.h"
#include "queues/recv_queue.h"

namespace uroce::client {

class ContextImpl;

struct SrqParts {
  Object object{};
  uint32_t id = 0;
  uint32_t max_sge = 0;
  queues::SrqPlace place{};
  /// Moves the receives to another place, and returns it.
  std::function<Result<queues::SrqPlace>(uint32_t max_wr)> resize{};
  std::shared_ptr<AbandonedRing> abandoned{};  ///< what a lost daemon leaves of it
};

class SrqImpl {
 public:
  SrqImpl(const ContextImpl& context, SrqParts parts)
      : queue(parts.place.ring, parts.max_sge), owner(&context), parts_(std::move(parts)) {}
  ~SrqImpl() {
    if (completes_on_ != nullptr) completes_on_->remove(parts_.id);
  }
  SrqImpl(const SrqImpl&) = delete;
  SrqImpl& operator=(const SrqImpl&) = delete;
  /// An XRC queue, which no queue pair flushes: it completes on the completion queue of `list`, also when the daemon is
  /// lost.
  void complete_on(const std::shared_ptr<FlushList>& list) {
    list->add(parts_.id, posts_, parts_.abandoned);
    completes_on_ = list;
  }
  Result<void> set_limit(uint32_t limit);
  Result<void> resize(uint32_t max_wr);
  const SrqParts& parts() const { return parts_; }
  uint32_t max_wr() const { return parts_.place.ring.entries; }

  queues::RecvQueue queue;
  const ContextImpl* owner;

 private:
  SrqParts parts_;
  std::atomic<QpState> posts_{QpState::rts};
  std::shared_ptr<FlushList> completes_on_;
};

class XrcDomainImpl {
 public:
  explicit XrcDomainImpl(const ContextImpl& context) : owner(&context) {}

  const ContextImpl* owner;
  Object object{};
};

}  // namespace uroce::client
