// The objects behind the public handles: the application's side of the queues, and the interface that both ways to open
// a device implement (in this process, and over the daemon's socket).
#pragma once

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include <uroce/verbs.h>

#include "client/flush.h"
#include "client/liveness.h"
#include "message/pipe_wait.h"
#include "queues/cq_poller.h"
#include "queues/place.h"
#include "queues/recv_queue.h"
#include "queues/send_queue.h"

namespace uroce::client {

/// Owns the device's side of an object; the last reference destroys it.
using Object = std::shared_ptr<void>;

using message::Wake;

class MrImpl {
 public:
  std::shared_ptr<PdImpl> pd{};
  std::shared_ptr<DmImpl> device_memory{};  ///< of a region of it
  Object range{};                           ///< keeps the memory shared
  Object object{};
  AccessFlags access{};
  uint32_t key = 0;
  bool local = false;  ///< peers cannot use the key
  bool fixed = false;  ///< memory without an address, which cannot become other memory
  uint64_t base = 0;   ///< address of the first byte in work requests
  void* address = nullptr;
  std::size_t length = 0;
  std::function<Result<uint32_t>()> windows{};
};

/// A memfd of fixed size, and its mapping. A region of it is passed to the daemon by its descriptor, which lib/sharing
/// finds among the open ones.
class DmImpl {
 public:
  /// Errors: EINVAL, ENOMEM, EMFILE.
  static Result<std::shared_ptr<DmImpl>> make(std::shared_ptr<ContextImpl> context, std::size_t length);
  ~DmImpl();
  DmImpl(const DmImpl&) = delete;
  DmImpl& operator=(const DmImpl&) = delete;

  std::size_t length() const { return length_; }
  std::byte* data() const { return data_; }
  /// Errors: EINVAL (`bytes` from `offset` are beyond the end).
  Result<void> check_range(std::size_t offset, std::size_t bytes) const;
  const ContextImpl* owner() const { return context_.get(); }

 private:
  DmImpl(std::shared_ptr<ContextImpl> context, std::size_t length) : context_(std::move(context)), length_(length) {}
  Result<void> map();

  std::shared_ptr<ContextImpl> context_;
  std::size_t length_;
  int fd_ = -1;
  std::byte* data_ = nullptr;
};

class MwImpl {
 public:
  Object object{};
  uint32_t key = 0;
  WindowType type{};
};

class XrcDomainImpl {
 public:
  explicit XrcDomainImpl(const ContextImpl& context) : owner(&context) {}

  const ContextImpl* owner;
  Object object{};
};

class AhImpl {
 public:
  Object object{};
  uint32_t id = 0;  ///< the number in work requests
};

class PdImpl {
 public:
  explicit PdImpl(const ContextImpl& context) : owner(&context) {}
  virtual ~PdImpl() = default;
  /// `base` is the address of the first byte in work requests.
  virtual Result<std::shared_ptr<MrImpl>> register_memory(void* address, std::size_t length, uint64_t base,
                                                          AccessFlags access) = 0;
  /// Changes `mr`, which is of the same context, to this range, access and domain. Its keys stay the same.
  virtual Result<void> reregister(MrImpl& mr, void* address, std::size_t length, uint64_t base, AccessFlags access) = 0;
  /// [offset, offset + length) of the dma-buf `fd`. The descriptor stays the caller's.
  virtual Result<std::shared_ptr<MrImpl>> register_dmabuf(int fd, uint64_t offset, std::size_t length, uint64_t base,
                                                          AccessFlags access) = 0;
  virtual Result<std::shared_ptr<MrImpl>> create_null_region() = 0;
  virtual Result<std::shared_ptr<MwImpl>> create_window(WindowType type) = 0;
  virtual Result<std::shared_ptr<AhImpl>> create_address_handle(const AddressVector& av) = 0;

  const ContextImpl* owner;  ///< compared, never dereferenced
};

/// A completion channel: a descriptor with one token per event, and the completion queues that use it.
class ChannelImpl {
 public:
  ChannelImpl(std::shared_ptr<ContextImpl> context, Object object, int fd)
      : context_(std::move(context)), object_(std::move(object)), fd_(fd) {}

  int fd() const { return fd_; }
  const std::shared_ptr<ContextImpl>& context() const { return context_; }
  const Object& object() const { return object_; }
  /// The id of a completion queue with an event, round robin among queues; nullopt when there is no event. Once the
  /// daemon is lost, each armed queue has one more event, at whatever step of raising it the engine died.
  std::optional<uint32_t> take();
  void add(CqImpl& cq);
  /// Also discards the queue's pending events.
  void remove(CqImpl& cq);

 private:
  enum class Token { none, there, ended };
  Token take_token();
  std::optional<uint32_t> take_last();

  std::shared_ptr<ContextImpl> context_;
  Object object_;
  int fd_;
  std::mutex mutex_;
  std::vector<CqImpl*> queues_;
  std::size_t next_ = 0;
};

struct CqParts {
  Object object{};
  /// Replaces the rings by larger or smaller ones, and returns their place.
  std::function<Result<queues::CqPlace>(uint32_t entries)> resize{};
  std::function<Result<void>(uint16_t count, uint16_t period_us)> moderate{};
  uint32_t id = 0;
  uint32_t rings = 0;
  queues::CqPlace place{};
  std::shared_ptr<ChannelImpl> channel{};
  std::shared_ptr<Liveness> daemon{};  ///< null where the engines are in this process
};

class CqImpl {
 public:
  CqImpl(const ContextImpl& context, CqParts parts);
  ~CqImpl();
  CqImpl(const CqImpl&) = delete;
  CqImpl& operator=(const CqImpl&) = delete;

  std::size_t poll(std::span<Completion> out) {
    const std::size_t taken = poller_.poll(out);
    return taken != 0 || parts_.daemon == nullptr ? taken : poll_idle(out);
  }
  Result<void> arm(bool solicited_only);
  Result<void> resize(uint32_t entries);
  Result<void> moderate(uint16_t count, uint16_t period_us) { return parts_.moderate(count, period_us); }
  uint32_t id() const { return parts_.id; }
  uint32_t entries() const { return parts_.place.entries; }
  const Object& object() const { return parts_.object; }
  /// Takes one of the events that engines counted. The channel's lock is held.
  bool take_event();
  /// Once the daemon is lost: takes an event that an engine counted, or one for an arming that had none. The channel's
  /// lock is held.
  bool take_last_event();
  const std::shared_ptr<FlushList>& flush_list() const { return flush_list_; }

  const ContextImpl* owner;

 private:
  std::size_t poll_idle(std::span<Completion> out);

  queues::CqPoller poller_;
  CqParts parts_;
  std::shared_ptr<FlushList> flush_list_ = std::make_shared<FlushList>();
  std::chrono::nanoseconds next_look_{0};  // at the daemon
  uint32_t taken_ = 0;                     // events
  std::atomic<bool> awaits_{false};        // it was armed, and no event was taken since
};

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

class FlowImpl {
 public:
  virtual ~FlowImpl() = default;
  virtual Result<FlowCounters> counters() const = 0;
};

struct QpParts {
  uint32_t qpn = 0;
  QpType type = QpType::rc;
  QpCap cap{};
  queues::QpPlace place{};
  queues::DoorbellPoster doorbell{};
};

/// Of an XRC target, which has no queues.
inline constexpr QpCap kNoQueues{
    .max_send_wr = 0, .max_recv_wr = 0, .max_send_sge = 0, .max_recv_sge = 0, .max_inline_data = 0};

class QpImpl {
 public:
  QpImpl(const ContextImpl& context, const QpParts& parts);
  virtual ~QpImpl() = default;

  int post_send(const SendRequest& request) {
    if (!may_send()) return refusal(EINVAL);
    if (const int error = send_queue_.put(request); error != 0) return refusal(error);
    if (send_queue_.commit()) wake();
    return 0;
  }
  std::size_t post_send(std::span<const SendRequest> requests, int* error);
  int post_recv(const RecvRequest& request) {
    // A queue pair with an SRQ has no receive queue; in RESET no posts are allowed (IBTA vol. 1, 10.3.1.1).
    if (!has_recv_queue_ || state() == QpState::reset) return refusal(EINVAL);
    if (const int error = recv_queue_.post(request); error != 0) return refusal(error);
    if (recv_queue_.wants_doorbell() && send_queue_.ring()) wake();
    return 0;
  }
  Result<void> modify(std::span<const QueuePair::Step> steps);
  void modify_with_next(const QueuePair::Step& step);
  Result<uint64_t> carry(uint16_t operation, std::span<const std::byte> request);
  void assume(QpState state);
  /// Sends the deferred steps (modify_with_next()) now.
  Result<void> catch_up();
  virtual Result<QpAttr> query() const = 0;
  virtual Result<void> attach_multicast(const Gid& group) = 0;
  virtual Result<void> detach_multicast(const Gid& group) = 0;
  /// A rule for the queue pairs of `table`, all of one context, of which this is the first.
  virtual Result<std::shared_ptr<FlowImpl>> create_flow(std::span<const QpImpl* const> table, const FlowRule& rule,
                                                        const RxHash& hash) = 0;
  uint32_t qpn() const { return parts_.qpn; }
  QpType type() const { return parts_.type; }
  const QpCap& cap() const { return parts_.cap; }

  const ContextImpl* owner;

 protected:
  virtual Result<void> change(std::span<const QueuePair::Step> steps) = 0;
  virtual Result<uint64_t> post(uint16_t operation, std::span<const QueuePair::Step> steps,
                                std::span<const std::byte> request);
  /// Wakes the sleeping engine.
  virtual void wake() = 0;
  /// Whether the daemon is gone, as the kernel says.
  virtual bool lost() const { return false; }
  std::atomic<QpState>& state_for_posts() { return state_; }

 private:
  QpState state() const { return state_.load(std::memory_order_relaxed); }
  bool may_send() const { return state() >= QpState::rts; }
  int refusal(int error) const { return lost() ? EIO : error; }

  QpParts parts_;
  // The state of the last successful modify, as libibverbs' providers keep it. It does not follow the engine's own
  // moves to SQE or ERROR: posts then still succeed, and the engine flushes them.
  std::atomic<QpState> state_{QpState::reset};
  std::mutex waiting_mutex_;
  std::vector<QueuePair::Step> waiting_;  // steps deferred to the next modify
  bool has_recv_queue_;
  queues::SendQueue send_queue_;
  queues::RecvQueue recv_queue_;
};

/// An opened device. Objects keep it alive.
class ContextImpl : public std::enable_shared_from_this<ContextImpl> {
 public:
  virtual ~ContextImpl() = default;

  virtual const DeviceInfo& info() const = 0;
  virtual Result<std::vector<Gid>> gids() const = 0;
  virtual Result<bool> link_up() const = 0;
  virtual Result<uint64_t> clock_ns() const = 0;
  virtual Result<std::shared_ptr<PdImpl>> create_pd() = 0;
  virtual Result<std::shared_ptr<ChannelImpl>> create_channel() = 0;
  virtual Result<std::shared_ptr<CqImpl>> create_cq(uint32_t entries, std::shared_ptr<ChannelImpl> channel,
                                                    CqOptions options) = 0;
  virtual Result<std::shared_ptr<SrqImpl>> create_srq(const PdImpl& pd, uint32_t max_wr, uint32_t max_sge) = 0;
  virtual Result<std::shared_ptr<XrcDomainImpl>> open_xrc_domain(const XrcDomainInit& init) = 0;
  virtual Result<std::shared_ptr<SrqImpl>> create_xrc_srq(const PdImpl& pd, const XrcDomainImpl& domain,
                                                          const CqImpl& cq, uint32_t max_wr, uint32_t max_sge) = 0;
  virtual Result<std::shared_ptr<QpImpl>> create_xrc_target(const XrcDomainImpl& domain, const QpInit& init) = 0;
  virtual Result<std::shared_ptr<QpImpl>> open_xrc_target(const XrcDomainImpl& domain, uint32_t qpn) = 0;
  virtual Result<std::shared_ptr<QpImpl>> create_qp(const PdImpl& pd, const CqImpl& send_cq, const CqImpl& recv_cq,
                                                    const QpInit& init, const SrqImpl* srq) = 0;
  virtual Result<void> lend(const CmPass& pass);
  virtual Result<void> settle(uint64_t position);
  virtual int async_fd() const = 0;
  virtual std::optional<AsyncEvent> take_async_event() = 0;
  virtual std::vector<std::pair<std::string, uint64_t>> counters() const = 0;
  /// Polls the engines meanwhile where the calling thread runs them.
  virtual Wake wait_readable(int fd, std::chrono::nanoseconds timeout) = 0;
  virtual bool lost() { return false; }

  std::atomic<uint64_t> device_memory{0};  ///< bytes that DmImpl has
};

/// Calls `take` until it returns a value, waiting on `fd` between calls. nullopt after `timeout`, after a signal, and
/// when the daemon is gone.
template <class Take>
auto wait_for(ContextImpl& context, int fd, std::chrono::nanoseconds timeout, Take take) -> decltype(take()) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  while (true) {
    if (auto event = take()) return event;
    const bool for_ever = timeout == std::chrono::nanoseconds::max();
    const Wake woken = context.wait_readable(fd, for_ever ? timeout : timeout - (Clock::now() - start));
    if (woken == Wake::lost) return take();  // armed queues have a last event
    // Another thread may have taken the event that woke this one.
    if (woken != Wake::readable) return std::nullopt;
  }
}

}  // namespace uroce::client
