// The verbs objects: what an application holds. Include <uroce/uroce.h> for everything.
//
// Ownership: each object is a move-only handle; destroying it destroys the verbs object. Children keep what they
// need of their parents alive, so destruction order does not matter for memory; a peer sees the QP's end first.
// Threads: different objects may be used by different threads at once. Of one object, calls that set up may come
// from any thread; post_send(), post_recv() and CompletionQueue::poll() are each for one thread at a time per object.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <uroce/error.h>
#include <uroce/export.h>
#include <uroce/types.h>

namespace uroce {

namespace client {
class ContextImpl;
class PdImpl;
class MrImpl;
class ChannelImpl;
class CqImpl;
class SrqImpl;
class QpImpl;
}  // namespace client

/// What a device is and can do (ibv_query_device(3), ibv_query_port(3)).
struct DeviceInfo {
  std::string name;    ///< e.g. "uroce0"
  std::string driver;  ///< the port's poll-mode driver, e.g. "net_memif"
  EthAddr mac{};
  std::vector<Gid> gids;          ///< the GID table; index is the sgid_index
  Mtu active_mtu = Mtu::mtu1024;  ///< largest path MTU that the port carries
  bool link_up = false;
  uint32_t engines = 1;
  uint32_t max_qp = 0;
  uint32_t max_qp_wr = 0;
  uint32_t max_cq = 0;
  uint32_t max_cqe = 0;
  uint32_t max_mr = 0;
  uint32_t max_srq = 0;
  uint32_t max_sge = kMaxSge;
  uint32_t max_inline = kMaxInline;
  uint32_t max_rd_atomic = kMaxRdAtomic;
  uint64_t max_message = kMaxMessage;
};

/// One completion (ibv_poll_cq(3)).
struct Completion {
  uint64_t wr_id = 0;
  WcStatus status = WcStatus::success;
  WcOpcode opcode = WcOpcode::send;  ///< valid only with `success`
  uint32_t byte_len = 0;             ///< receives and READs: bytes placed
  uint32_t imm_or_key = 0;           ///< host order; see flags
  uint32_t qpn = 0;
  uint32_t src_qpn = 0;  ///< UD
  WcFlags flags{};
  uint32_t vendor_error = 0;
  uint64_t timestamp_ns = 0;
};

/// One send work request. Exactly one of `sges` and `inline_data` carries the payload.
struct SendRequest {
  uint64_t wr_id = 0;
  WrOpcode opcode = WrOpcode::send;
  SendFlags flags{};
  std::span<const Sge> sges{};               ///< local memory; READ and atomics are placed here
  std::span<const std::byte> inline_data{};  ///< used with SendFlag::inline_data; copied at post time
  uint32_t imm_or_key = 0;                   ///< immediate data, host order, or the rkey to invalidate
  uint64_t remote_addr = 0;
  uint32_t rkey = 0;
  uint64_t compare_add = 0;
  uint64_t swap = 0;
};

struct RecvRequest {
  uint64_t wr_id = 0;
  std::span<const Sge> sges{};
};

/// An event of a context's asynchronous channel.
struct AsyncEvent {
  AsyncEventType type{};
  uint32_t object = 0;  ///< QPN, or the id of a completion queue or shared receive queue
};

/// Registered memory (ibv_reg_mr(3)). The memory itself stays the caller's, and must outlive this.
class UROCE_API MemoryRegion {
 public:
  uint32_t lkey() const;
  uint32_t rkey() const;
  void* address() const;
  std::size_t length() const;
  /// A scatter/gather entry for [offset, offset + length) of this region.
  Sge sge(std::size_t offset, uint32_t length) const;

 private:
  friend class ProtectionDomain;
  explicit MemoryRegion(std::shared_ptr<client::MrImpl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<client::MrImpl> impl_;
};

/// A protection domain (ibv_alloc_pd(3)).
class UROCE_API ProtectionDomain {
 public:
  /// Registers [address, address + length). Errors: EINVAL (length 0 or wraps, remote write or atomic without local
  /// write), ENOMEM (the device's max_mr).
  Result<MemoryRegion> register_memory(void* address, std::size_t length, AccessFlags access);

 private:
  friend class Context;
  explicit ProtectionDomain(std::shared_ptr<client::PdImpl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<client::PdImpl> impl_;
};

/// A completion channel (ibv_create_comp_channel(3)).
class UROCE_API CompletionChannel {
 public:
  /// A descriptor that polls readable while an event waits. Owned by the channel.
  int fd() const;
  /// Waits for the next event and returns the id of its completion queue; nullopt after `timeout`.
  std::optional<uint32_t> wait(std::chrono::nanoseconds timeout);

 private:
  friend class Context;
  explicit CompletionChannel(std::shared_ptr<client::ChannelImpl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<client::ChannelImpl> impl_;
};

/// A completion queue (ibv_create_cq(3)).
class UROCE_API CompletionQueue {
 public:
  uint32_t id() const;
  /// Takes up to `out.size()` completions, oldest first per QP; returns how many. Allocates and locks nothing.
  std::size_t poll(std::span<Completion> out);
  /// The next completion (or, with `solicited_only`, the next solicited or failed one) raises one event on the
  /// channel. Poll once more after arming: what came before does not raise it (ibv_req_notify_cq(3)).
  /// Errors: EINVAL without a channel.
  Result<void> arm(bool solicited_only = false);

 private:
  friend class Context;
  explicit CompletionQueue(std::shared_ptr<client::CqImpl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<client::CqImpl> impl_;
};

/// A shared receive queue (ibv_create_srq(3)).
class UROCE_API SharedReceiveQueue {
 public:
  uint32_t id() const;
  /// 0, ENOMEM (queue full) or EINVAL (more entries than max_sge).
  int post_recv(const RecvRequest& request);
  /// One srq_limit_reached event when fewer than `limit` receives remain; 0 disarms.
  Result<void> set_limit(uint32_t limit);

 private:
  friend class Context;
  explicit SharedReceiveQueue(std::shared_ptr<client::SrqImpl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<client::SrqImpl> impl_;
};

struct QpInit {
  QpType type = QpType::rc;
  QpCap cap{};
  bool signal_all = false;
  int engine = -1;  ///< which engine the QP lives on; -1 lets the device place it
};

/// A queue pair (ibv_create_qp(3)).
class UROCE_API QueuePair {
 public:
  uint32_t qpn() const;
  const QpCap& cap() const;
  /// Posts one send. 0, or ENOMEM (send queue full), EINVAL (more entries or inline bytes than the QP has, opcode not
  /// of this QP type, QP not in RTS, SQD or error). Faults found later complete in error instead.
  int post_send(const SendRequest& request);
  /// Posts several, ringing the doorbell once. Returns how many were posted; `error` (if given) is why it stopped.
  std::size_t post_send(std::span<const SendRequest> requests, int* error = nullptr);
  /// 0, ENOMEM or EINVAL; EINVAL for a QP with an SRQ.
  int post_recv(const RecvRequest& request);
  /// Changes state and attributes (IBTA vol. 1, 11.2.5.2). A transition with a missing or forbidden attribute
  /// fails with EINVAL naming it. To RTR, resolves the peer's Ethernet address first: EHOSTUNREACH within 3 s.
  Result<void> modify(const QpAttr& attr, QpAttrMask mask);
  Result<QpAttr> query() const;

  /// RESET to RTS in one call, for applications that exchange addresses themselves.
  struct Peer {
    Gid gid{};
    uint32_t qpn = 0;
    uint32_t psn = 0;  ///< the peer's first PSN
  };
  struct ConnectOptions {
    uint32_t psn = 0;  ///< this side's first PSN
    uint8_t sgid_index = 0;
    Mtu path_mtu = Mtu::mtu1024;
    AccessFlags access =
        AccessFlags(Access::local_write) | Access::remote_write | Access::remote_read | Access::remote_atomic;
    uint8_t max_rd_atomic = 16;
    uint8_t max_dest_rd_atomic = 16;
    uint8_t min_rnr_timer = 12;
    uint8_t timeout = 14;
    uint8_t retry_cnt = 7;
    uint8_t rnr_retry = 7;
    uint8_t traffic_class = 0;
    uint8_t hop_limit = 64;
  };
  Result<void> connect(const Peer& peer, const ConnectOptions& options);

 private:
  friend class Context;
  explicit QueuePair(std::shared_ptr<client::QpImpl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<client::QpImpl> impl_;
};

/// An opened device (ibv_open_device(3)).
class UROCE_API Context {
 public:
  const DeviceInfo& info() const;
  Result<ProtectionDomain> create_pd();
  Result<CompletionChannel> create_channel();
  /// `entries`: at least this many completions fit, 1..max_cqe. An overrun is a cq_error event and fails the QP.
  Result<CompletionQueue> create_cq(uint32_t entries, const CompletionChannel* channel = nullptr);
  Result<SharedReceiveQueue> create_srq(const ProtectionDomain& pd, uint32_t max_wr, uint32_t max_sge);
  Result<QueuePair> create_qp(const ProtectionDomain& pd, const CompletionQueue& send_cq,
                              const CompletionQueue& recv_cq, const QpInit& init,
                              const SharedReceiveQueue* srq = nullptr);
  /// Descriptor that polls readable while an asynchronous event waits.
  int async_fd() const;
  /// The next asynchronous event; nullopt after `timeout`.
  std::optional<AsyncEvent> next_async_event(std::chrono::nanoseconds timeout);
  /// Counters of the device by name ("rx_packets", "drop_icrc", ...), summed over its engines.
  std::vector<std::pair<std::string, uint64_t>> counters() const;

  /// For openers (see <uroce/stack.h>); applications do not call it.
  explicit Context(std::shared_ptr<client::ContextImpl> impl) : impl_(std::move(impl)) {}

 private:
  std::shared_ptr<client::ContextImpl> impl_;
};

}  // namespace uroce
