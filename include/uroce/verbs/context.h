// Opened devices, which make all other objects. <uroce/verbs.h> tells of ownership, threads and errors.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <uroce/error.h>
#include <uroce/export.h>
#include <uroce/flow.h>
#include <uroce/types.h>
#include <uroce/verbs/completion_queue.h>
#include <uroce/verbs/device.h>
#include <uroce/verbs/memory.h>
#include <uroce/verbs/parameters.h>
#include <uroce/verbs/protection_domain.h>
#include <uroce/verbs/queue_pair.h>
#include <uroce/verbs/shared_receive_queue.h>

namespace uroce {

namespace client {
class ContextImpl;
}  // namespace client

/// An opened device (ibv_open_device(3)).
class UROCE_API Context {
 public:
  Context(Context&&) noexcept = default;
  Context& operator=(Context&&) noexcept = default;

  /// The device as it was when the context was opened.
  const DeviceInfo& info() const;
  /// The GID table as it is now, by sgid_index; an empty entry is the zero GID. A gid_change event announces a change.
  /// Queue pairs and address handles keep the address that they were made with, even when the table loses it.
  Result<std::vector<Gid>> gids() const;
  /// True when the port's link is up now.
  Result<bool> link_up() const;
  /// The clock of Completion::timestamp_ns, now: nanoseconds, monotonic, from an arbitrary start.
  Result<uint64_t> clock_ns() const;
  /// A protection domain. Errors: ENOMEM (limits.max_pd of the daemon).
  Result<ProtectionDomain> create_pd();
  /// Device memory of `length` bytes, at least 1. Errors: EINVAL (0 bytes), ENOMEM (more than max_device_memory in all;
  /// the process has no more memory), EMFILE (descriptors).
  Result<DeviceMemory> allocate_device_memory(std::size_t length);
  /// A completion channel. Errors: EMFILE (descriptors).
  Result<CompletionChannel> create_channel();
  /// A completion queue for at least `entries` completions, 1..max_cqe. An overrun raises a cq_error event and moves
  /// the QP to error, unless `options` say otherwise. Errors: EINVAL (entries; channel of another context), ENOMEM
  /// (max_cq, memory).
  Result<CompletionQueue> create_cq(uint32_t entries, const CompletionChannel* channel = nullptr,
                                    CqOptions options = {});
  /// A shared receive queue for `max_wr` receives, 1..32768, rounded up, with up to `max_sge` entries each,
  /// 0..DeviceInfo::max_sge. The queue and all its queue pairs live on one engine. Errors: EINVAL (a size), ENOMEM
  /// (max_srq, memory).
  Result<SharedReceiveQueue> create_srq(const ProtectionDomain& pd, uint32_t max_wr, uint32_t max_sge);
  /// An XRC domain of the device. Through the daemon, its file must be of tmpfs or of a local disk. Errors: EAGAIN (the
  /// inode has no domain, and `create` is not set), EINVAL (it has one, and `exclusive` is set), EBADF, EOPNOTSUPP (the
  /// file system), ENOMEM (limits.max_pd), EMFILE.
  Result<XrcDomain> open_xrc_domain(const XrcDomainInit& init);
  /// As create_srq(), in an XRC domain: requests name it by its id(). All its receives complete in `cq`, with the
  /// number of the target queue pair in Completion::qpn. The memory of receives, and what WRITEs, READs and atomics
  /// that name the queue may reach, is of `pd`.
  Result<SharedReceiveQueue> create_xrc_srq(const ProtectionDomain& pd, const XrcDomain& domain,
                                            const CompletionQueue& cq, uint32_t max_wr, uint32_t max_sge);
  /// The receiving end of an extended reliable connection, in RESET. It has no queues and posts nothing. Of `init` only
  /// the choices of recovery and congestion control count. It exists until its maker and all who have opened it have
  /// destroyed their objects; each of them may modify it, and gets its events. Errors: EINVAL (a domain of another
  /// context), ENOMEM (max_qp).
  Result<QueuePair> create_xrc_target(const XrcDomain& domain, const QpInit& init = {});
  /// The target queue pair `qpn` of the domain, which any holder of the domain has made (ibv_open_qp(3)). Errors:
  /// EINVAL (none has this number).
  Result<QueuePair> open_xrc_target(const XrcDomain& domain, uint32_t qpn);
  /// A queue pair in RESET, of any type but xrc_target. An XRC initiator receives nothing: its `recv_cq` is not used,
  /// and `srq` is null. All objects must belong to this context. Errors: EINVAL (a size, the engine, an object of
  /// another context), EOPNOTSUPP (type), ENOMEM (max_qp, memory).
  /// `steps` are applied in the same call, as by QueuePair::modify(); no queue pair is made when one fails.
  Result<QueuePair> create_qp(const ProtectionDomain& pd, const CompletionQueue& send_cq,
                              const CompletionQueue& recv_cq, const QpInit& init,
                              const SharedReceiveQueue* srq = nullptr, std::span<const QueuePair::Step> steps = {});
  /// Receive-side scaling: a rule that spreads its frames over several raw packet queue pairs. The hash of a frame,
  /// modulo the size of `table`, is the index of the queue pair that gets it; one may stand there several times. A
  /// sniffer spreads its copies likewise. The rule keeps all of them in existence. Errors: those of
  /// QueuePair::create_flow(); EINVAL (a table of another size than a power of two, 1..kMaxIndirection; a queue pair of
  /// another context; unknown fields of the hash).
  Result<Flow> create_flow(std::span<const QueuePair* const> table, const FlowRule& rule, const RxHash& hash);
  /// A descriptor that is readable while an asynchronous event waits; used like CompletionChannel::fd().
  int async_fd() const;
  /// Whether the daemon that serves this device has ended or closed the connection. All calls then fail with EIO, and
  /// work that was posted completes with WcStatus::flushed. False for a device of this process. Any thread; at most one
  /// system call.
  bool lost() const;
  /// The next asynchronous event of this context's objects or of the port; nullopt as from CompletionChannel::wait().
  /// When the daemon ends, the last event is device_fatal. At most max_qp + 1024 events wait; further ones are lost.
  std::optional<AsyncEvent> next_async_event(std::chrono::nanoseconds timeout);
  /// Counters of the device by name ("rx_packets", "drop_icrc", ...), summed over its engines. `uroce stat --describe`
  /// says what they mean.
  std::vector<std::pair<std::string, uint64_t>> counters() const;

  /// The library calls this. Applications get a Context from Stack::open() or open_daemon_device().
  explicit Context(std::shared_ptr<client::ContextImpl> impl) : impl_(std::move(impl)) {}

 private:
  std::shared_ptr<client::ContextImpl> impl_;
};

}  // namespace uroce
