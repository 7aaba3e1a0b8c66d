// The verbs objects: what an application holds. Include <uroce/uroce.h> for everything.
//
// Ownership: each object is a move-only handle; destroying it destroys the verbs object. What another object still
// uses (the completion queues, shared receive queue and domain of a queue pair, the domain of a region) lives on until
// that one goes too, so the order of destruction does not matter. A moved-from handle can only be destroyed or
// assigned to.
// Threads: different objects may be used by different threads at once. Of one object, calls that set up, query or wait
// may come from any thread; post_send(), post_recv() and CompletionQueue::poll() are each for one thread at a time per
// object. They never block, lock or allocate.
// Errors: calls that set up wait for the engine. Besides what is named at each, any of them can fail with ETIMEDOUT
// (the engine did not answer within 5 s) and ENODEV (the stack was shut down).
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
class MwImpl;
class AhImpl;
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
  std::vector<Gid> gids;          ///< the GID table; index is the sgid_index, configured addresses come first
  Mtu active_mtu = Mtu::mtu1024;  ///< largest path MTU that the port carries
  bool link_up = false;           ///< when the device was opened; changes come as asynchronous events
  uint32_t engines = 1;           ///< each on an lcore of its own; see QpInit::engine
  uint32_t max_qp = 0;
  uint32_t max_qp_wr = 0;  ///< work requests per queue
  uint32_t max_cq = 0;
  uint32_t max_cqe = 0;  ///< entries per completion queue
  uint32_t max_mr = 0;   ///< memory regions and windows together
  uint32_t max_mw = 0;
  uint32_t max_srq = 0;
  uint32_t max_ah = 0;
  uint32_t max_multicast_attach = 0;  ///< queue pairs attached to multicast groups, counted per group
  uint32_t max_sge = kMaxSge;
  uint32_t max_inline = kMaxInline;
  uint32_t max_rd_atomic = kMaxRdAtomic;
  uint64_t max_message = kMaxMessage;  ///< bytes
};

/// One completion (ibv_poll_cq(3)).
struct Completion {
  uint64_t wr_id = 0;
  WcStatus status = WcStatus::success;
  WcOpcode opcode = WcOpcode::send;  ///< valid only with `success`
  uint32_t byte_len = 0;             ///< receives and READs: bytes placed
  uint32_t imm_or_key = 0;           ///< immediate data, host order, or the invalidated rkey; by `flags`
  uint32_t qpn = 0;
  uint32_t src_qpn = 0;  ///< UD
  WcFlags flags{};
  uint32_t vendor_error = 0;  ///< engine's own reason for an error, or 0
  uint64_t timestamp_ns = 0;  ///< engine's monotonic clock when the completion was written
};

/// What WrOpcode::bind_mw makes of a memory window (ibv_bind_mw(3)).
struct WindowBind {
  uint32_t rkey = 0;     ///< the window's new rkey: MemoryWindow::rkey() with low 8 bits of the caller's choice
  uint32_t lkey = 0;     ///< MemoryRegion::lkey() of a region with Access::mw_bind, of the window's domain
  uint64_t addr = 0;     ///< where the window begins, as the region's sges name it
  uint64_t length = 0;   ///< bytes; 0 unbinds a window of type 1
  AccessFlags access{};  ///< what peers may do; with Access::zero_based (type 2) they count from the window's begin
};

/// One send work request (ibv_post_send(3)). `sges` or `inline_data` carries the payload, never both; neither makes a
/// message of 0 bytes. With SendFlag::inline_data the payload is copied at post time, from `inline_data` or from the
/// addresses in `sges` (their lkeys are not used), and its memory need be neither registered nor kept. Without it, the
/// memory of `sges` must stay as it is until the work request completes; the array itself need not.
struct SendRequest {
  uint64_t wr_id = 0;
  WrOpcode opcode = WrOpcode::send;
  SendFlags flags{};
  std::span<const Sge> sges{};               ///< local memory; READ and atomics are placed here
  std::span<const std::byte> inline_data{};  ///< only with SendFlag::inline_data
  uint32_t imm_or_key = 0;                   ///< immediate data, host order, or the key to invalidate
  uint64_t remote_addr = 0;                  ///< WRITE, READ; atomics: a multiple of 8
  uint32_t rkey = 0;
  uint64_t compare_add = 0;  ///< FETCH_ADD: the addend; CMP_SWAP: the value compared with
  uint64_t swap = 0;         ///< CMP_SWAP
  WindowBind bind{};         ///< bind_mw
  // UD: where the datagram goes.
  uint32_t ah = 0;           ///< AddressHandle::id(), of the queue pair's domain
  uint32_t remote_qpn = 0;   ///< 24 bits; kMulticastQpn for a multicast group
  uint32_t remote_qkey = 0;  ///< with its high bit set, the queue pair's own Q_Key is sent (IBTA vol. 1, 10.2.5)
};

/// One receive work request (ibv_post_recv(3)). The memory belongs to the engine until it completes.
struct RecvRequest {
  uint64_t wr_id = 0;
  std::span<const Sge> sges{};
};

/// An event of a context's asynchronous channel.
struct AsyncEvent {
  AsyncEventType type{};
  uint32_t object = 0;  ///< QPN, id of a completion queue or of a shared receive queue, or port number, by `type`
};

class ProtectionDomain;

/// Registered memory (ibv_reg_mr(3)). The memory itself stays the caller's, and must outlive this. Destroying it ends
/// the key at once and returns when no engine reads or writes the memory any more; work that still names the key
/// completes in error.
class UROCE_API MemoryRegion {
 public:
  MemoryRegion(MemoryRegion&&) noexcept = default;
  MemoryRegion& operator=(MemoryRegion&&) noexcept = default;

  uint32_t lkey() const;
  uint32_t rkey() const;
  void* address() const;
  std::size_t length() const;
  /// Makes it another region under the same keys (ibv_rereg_mr(3)): in `pd`, over [address, address + length), with
  /// `access`; what is null stays. Work that uses the keys meanwhile fails. Errors: EINVAL and those of
  /// ProtectionDomain::register_memory(), with nothing changed; ETIMEDOUT, with the keys ended.
  Result<void> reregister(const ProtectionDomain* pd, void* address, std::size_t length, const AccessFlags* access);
  /// A scatter/gather entry for [offset, offset + length) of this region. Not checked here; a work request that
  /// leaves the region completes in error.
  Sge sge(std::size_t offset, uint32_t length) const;
  /// Memory windows bound to it now.
  Result<uint32_t> windows() const;

 private:
  friend class ProtectionDomain;
  explicit MemoryRegion(std::shared_ptr<client::MrImpl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<client::MrImpl> impl_;
};

/// A memory window (ibv_alloc_mw(3)): a key to part of a region that work requests bind and end, in the order of the
/// send queue. WrOpcode::bind_mw binds it for the requests posted behind; a type 1 window can be bound again at will,
/// which ends its key. A type 2 window serves the queue pair that bound it alone, and is invalidated before it is bound
/// again: by WrOpcode::local_invalidate there, which waits until all posted before it is complete, or by the peer's
/// SEND with invalidate. What may not be bound completes with WcStatus::mw_bind_error, what may not be invalidated with
/// local_qp_operation_error. Once its region goes, a window's key is good for nothing. Destroying it ends its key at
/// once and returns when no engine uses it any more.
class UROCE_API MemoryWindow {
 public:
  MemoryWindow(MemoryWindow&&) noexcept = default;
  MemoryWindow& operator=(MemoryWindow&&) noexcept = default;

  WindowType type() const;
  /// As allocated. Binds choose the low 8 bits; the rest stays.
  uint32_t rkey() const;
  /// Another rkey of the same window (ibv_inc_rkey(3)).
  static constexpr uint32_t next_rkey(uint32_t rkey) { return (rkey & ~0xffu) | ((rkey + 1) & 0xff); }

 private:
  friend class ProtectionDomain;
  explicit MemoryWindow(std::shared_ptr<client::MwImpl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<client::MwImpl> impl_;
};

/// Where datagrams go (ibv_create_ah(3)): a unicast peer or a multicast group. Send requests name it by its id, in
/// queue pairs of its domain. Destroying it ends the id at once; keep it until the sends that name it have completed.
class UROCE_API AddressHandle {
 public:
  AddressHandle(AddressHandle&&) noexcept = default;
  AddressHandle& operator=(AddressHandle&&) noexcept = default;

  uint32_t id() const;

 private:
  friend class ProtectionDomain;
  explicit AddressHandle(std::shared_ptr<client::AhImpl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<client::AhImpl> impl_;
};

/// A protection domain (ibv_alloc_pd(3)).
class UROCE_API ProtectionDomain {
 public:
  ProtectionDomain(ProtectionDomain&&) noexcept = default;
  ProtectionDomain& operator=(ProtectionDomain&&) noexcept = default;

  /// Registers [address, address + length) for local reads and whatever `access` adds. With Access::zero_based work
  /// requests and peers count its bytes from 0, else they use the addresses of this process.
  /// Errors: EINVAL (length 0 or wraps, remote write or atomic without local write), ENOMEM (the device's max_mr).
  Result<MemoryRegion> register_memory(void* address, std::size_t length, AccessFlags access);
  /// The same, with `iova` as the name of its first byte in work requests (ibv_reg_mr_iova(3)).
  Result<MemoryRegion> register_memory(void* address, std::size_t length, AccessFlags access, uint64_t iova);
  /// A memory window, not bound. Errors: EINVAL (no such type), ENOMEM (max_mr).
  Result<MemoryWindow> create_memory_window(WindowType type);
  /// Resolves the Ethernet address of a unicast `av.dgid` first; a multicast one has its own.
  /// Errors: EINVAL (sgid_index, dgid, families mixed, flow_label), EHOSTUNREACH within 3 s, ENETUNREACH, ENOMEM
  /// (max_ah).
  Result<AddressHandle> create_address_handle(const AddressVector& av);

 private:
  friend class Context;
  friend class MemoryRegion;
  explicit ProtectionDomain(std::shared_ptr<client::PdImpl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<client::PdImpl> impl_;
};

/// A completion channel (ibv_create_comp_channel(3)).
class UROCE_API CompletionChannel {
 public:
  CompletionChannel(CompletionChannel&&) noexcept = default;
  CompletionChannel& operator=(CompletionChannel&&) noexcept = default;

  /// A descriptor that polls readable while an event waits, for poll(2) and its like; take events with wait(), never
  /// by reading it. Owned by the channel.
  int fd() const;
  /// Waits for the next event and returns the id of its completion queue; nullopt after `timeout`. With an embedded
  /// stack, on the thread that runs it, keeps the engines running meanwhile.
  std::optional<uint32_t> wait(std::chrono::nanoseconds timeout);

 private:
  friend class Context;
  explicit CompletionChannel(std::shared_ptr<client::ChannelImpl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<client::ChannelImpl> impl_;
};

/// A completion queue (ibv_create_cq(3)).
class UROCE_API CompletionQueue {
 public:
  CompletionQueue(CompletionQueue&&) noexcept = default;
  CompletionQueue& operator=(CompletionQueue&&) noexcept = default;

  /// Unique among the device's completion queues that exist.
  uint32_t id() const;
  /// Completions of one engine that fit, at least what was asked for.
  uint32_t entries() const;
  /// Makes it larger or smaller, keeping what was not polled (ibv_resize_cq(3)); no thread may poll meanwhile.
  /// Errors: EINVAL (out of 1..max_cqe, or more completions wait), ENOMEM.
  Result<void> resize(uint32_t entries);
  /// Takes up to `out.size()` completions, oldest first per QP; returns how many.
  std::size_t poll(std::span<Completion> out);
  /// The next completion (or, with `solicited_only`, the next solicited or failed one) raises one event on the
  /// channel. Poll once more after arming: what came before does not raise it (ibv_req_notify_cq(3)). Arming for any
  /// completion stands until it fires. Any thread. Errors: EINVAL without a channel.
  Result<void> arm(bool solicited_only = false);

 private:
  friend class Context;
  explicit CompletionQueue(std::shared_ptr<client::CqImpl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<client::CqImpl> impl_;
};

/// A shared receive queue (ibv_create_srq(3)).
class UROCE_API SharedReceiveQueue {
 public:
  SharedReceiveQueue(SharedReceiveQueue&&) noexcept = default;
  SharedReceiveQueue& operator=(SharedReceiveQueue&&) noexcept = default;

  /// Unique among the device's shared receive queues that exist.
  uint32_t id() const;
  uint32_t max_wr() const;   ///< receives that fit, at least what was asked for
  uint32_t max_sge() const;  ///< entries of each
  /// 0, ENOMEM (queue full) or EINVAL (more entries than max_sge).
  int post_recv(const RecvRequest& request);
  /// One srq_limit_reached event when fewer than `limit` receives remain; 0 disarms. Checked as receives are taken.
  /// Errors: EINVAL (above the queue's size).
  Result<void> set_limit(uint32_t limit);

 private:
  friend class Context;
  explicit SharedReceiveQueue(std::shared_ptr<client::SrqImpl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<client::SrqImpl> impl_;
};

/// What a queue pair is made from.
struct QpInit {
  QpType type = QpType::rc;
  QpCap cap{};              ///< at most max_qp_wr, max_sge, max_inline; see QueuePair::cap() for what came of it
  bool signal_all = false;  ///< every send work request completes visibly, as if SendFlag::signaled
  int engine = -1;          ///< 0..DeviceInfo::engines - 1; -1: the SRQ's engine, else the next in turn
  Retransmission retransmission = Retransmission::device_default;                ///< RC
  CongestionAlgorithm congestion_control = CongestionAlgorithm::device_default;  ///< RC
};

/// A queue pair (ibv_create_qp(3)).
class UROCE_API QueuePair {
 public:
  QueuePair(QueuePair&&) noexcept = default;
  QueuePair& operator=(QueuePair&&) noexcept = default;

  uint32_t qpn() const;  ///< 24 bits
  /// The sizes in force, at least those asked for.
  const QpCap& cap() const;
  /// Posts one send. 0, or ENOMEM (send queue full: room comes back as work requests complete, which for unsignaled
  /// ones shows at the next signaled one), EINVAL (more entries or inline bytes than the QP has, opcode not of this QP
  /// type, entries or inline bytes with local_invalidate or bind_mw, this handle not brought to RTS). In SQD posts
  /// wait; in error they complete as flushed. Faults found later complete in error instead.
  int post_send(const SendRequest& request);
  /// Posts several, in order, ringing the doorbell once. Returns how many were posted; `error` (if given) is set to 0,
  /// or to why it stopped.
  std::size_t post_send(std::span<const SendRequest> requests, int* error = nullptr);
  /// 0, ENOMEM (receive queue full) or EINVAL (more entries than max_recv_sge, QP in RESET, QP with an SRQ).
  int post_recv(const RecvRequest& request);
  /// Changes state and attributes (IBTA vol. 1, 11.2.5.2; ibv_modify_qp(3)). A transition with a missing or forbidden
  /// attribute, or a value out of range, fails with EINVAL naming it, and nothing changes. With an address vector,
  /// resolves the peer's Ethernet address first: EHOSTUNREACH within 3 s, ENETUNREACH. To RESET, forgets what is
  /// posted; completions already written stay in their queues.
  Result<void> modify(const QpAttr& attr, QpAttrMask mask);
  /// What modify() takes.
  struct Step {
    QpAttr attr{};
    QpAttrMask mask{};
  };
  /// Up to 6 changes in order, each as if it came alone, up to the first that fails: through the daemon, one call.
  Result<void> modify(std::span<const Step> steps);
  /// As modify(), without waiting: the step goes with the next call that changes or asks the queue pair, which fails
  /// where it is refused. For steps after which nothing happens by itself, as to INIT; posting goes by them at once.
  void modify_with_next(const Step& step);
  /// The attributes as they are now; `state` shows moves to error that the engine made by itself.
  Result<QpAttr> query() const;

  /// The far end, as it told this side.
  struct Peer {
    Gid gid{};  ///< one of its DeviceInfo::gids; of the family of this side's
    uint32_t qpn = 0;
    uint32_t psn = 0;  ///< the peer's first PSN
  };
  /// See QpAttr. `psn`, `path_mtu` and the READ/atomic depths must match what the peer uses.
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
  /// RESET to RTS in one call, for applications that exchange addresses themselves. Post receives before the peer
  /// sends: its SENDs are answered from here on. UC takes what it has of the options. Errors: those of modify(), the
  /// QP is then in RESET, INIT or RTR; EINVAL for UD, which has no peer.
  Result<void> connect(const Peer& peer, const ConnectOptions& options);
  /// UD: RESET to RTS in one call. Datagrams with another Q_Key are dropped. In front of each one received stand 40
  /// bytes: the IPv6 header, or 20 bytes without meaning and the IPv4 header; receives need room for them, and
  /// Completion::byte_len counts them. Errors: those of modify(); EINVAL for RC and UC.
  Result<void> start(uint32_t qkey, uint32_t psn = 0);

  /// UD: datagrams to the group, from the wire or from this device, arrive here too (ibv_attach_mcast(3)). Attaching
  /// again changes nothing; a queue pair that goes detaches itself. A switch that filters must be told by other means.
  /// Errors: EINVAL (not UD, no multicast GID, not attached), ENOMEM (max_multicast_attach).
  Result<void> attach_multicast(const Gid& group);
  Result<void> detach_multicast(const Gid& group);

 private:
  friend class Context;
  explicit QueuePair(std::shared_ptr<client::QpImpl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<client::QpImpl> impl_;
};

/// An opened device (ibv_open_device(3)).
class UROCE_API Context {
 public:
  Context(Context&&) noexcept = default;
  Context& operator=(Context&&) noexcept = default;

  /// As it was when the context was opened.
  const DeviceInfo& info() const;
  /// The GID table now, as an index names its entries; the zero GID where one is empty. A gid_change event says when to
  /// look again. Queue pairs and address handles that were made with an address that went keep it.
  Result<std::vector<Gid>> gids() const;
  /// Whether the port's link is up now.
  Result<bool> link_up() const;
  /// The clock of Completion::timestamp_ns, now.
  Result<uint64_t> clock_ns() const;
  Result<ProtectionDomain> create_pd();
  /// Errors: EMFILE.
  Result<CompletionChannel> create_channel();
  /// `entries`: at least this many completions fit, 1..max_cqe. An overrun is a cq_error event and fails the QP.
  /// Errors: EINVAL (entries; channel of another context), ENOMEM (max_cq, memory).
  Result<CompletionQueue> create_cq(uint32_t entries, const CompletionChannel* channel = nullptr);
  /// `max_wr`: 1..32768 receives, rounded up; `max_sge`: entries of each, 0..max_sge. The queue lives on one engine,
  /// and so do all its queue pairs. Errors: EINVAL, ENOMEM (max_srq, memory).
  Result<SharedReceiveQueue> create_srq(const ProtectionDomain& pd, uint32_t max_wr, uint32_t max_sge);
  /// A queue pair in RESET. All objects must be of this context. Errors: EINVAL (sizes, engine, foreign object),
  /// EOPNOTSUPP (type), ENOMEM (max_qp, memory).
  Result<QueuePair> create_qp(const ProtectionDomain& pd, const CompletionQueue& send_cq,
                              const CompletionQueue& recv_cq, const QpInit& init,
                              const SharedReceiveQueue* srq = nullptr);
  /// Descriptor that polls readable while an asynchronous event waits; as CompletionChannel::fd().
  int async_fd() const;
  /// The next asynchronous event of this context's objects or of the port; nullopt after `timeout`. More than max_qp +
  /// 1024 waiting events are lost.
  std::optional<AsyncEvent> next_async_event(std::chrono::nanoseconds timeout);
  /// Counters of the device by name ("rx_packets", "drop_icrc", ...), summed over its engines.
  std::vector<std::pair<std::string, uint64_t>> counters() const;

  /// For openers (see <uroce/stack.h>); applications do not call it.
  explicit Context(std::shared_ptr<client::ContextImpl> impl) : impl_(std::move(impl)) {}

 private:
  std::shared_ptr<client::ContextImpl> impl_;
};

}  // namespace uroce
