// The verbs objects that an application holds. <uroce/uroce.h> includes everything.
//
// Ownership: each object is a move-only handle. Destroying the handle destroys the verbs object. An object that another
// one still uses (the completion queues, shared receive queue and domain of a queue pair; the domain of a region) lives
// on until that one is destroyed, so the order of destruction does not matter. A moved-from handle can only be
// destroyed or assigned. Threads: several threads may use different objects at once. Control calls (set up, query,
// wait) of one object may come from any thread. The data path calls post_send(), post_recv() and
// CompletionQueue::poll() take one thread at a time for each object and kind of call. They never block, lock or
// allocate. Errors: control calls wait for the engine. Besides the errors named at each, any of them can fail with
// ETIMEDOUT (the engine did not answer within 5 s), ENODEV (the stack was shut down) and EIO (the daemon ended).
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
#include <uroce/flow.h>
#include <uroce/types.h>

namespace uroce {

namespace client {
class ContextImpl;
class PdImpl;
class MrImpl;
class DmImpl;
class MwImpl;
class AhImpl;
class ChannelImpl;
class CqImpl;
class SrqImpl;
class FlowImpl;
class QpImpl;
class XrcDomainImpl;
}  // namespace client

/// A device's properties and limits (ibv_query_device(3), ibv_query_port(3)).
struct DeviceInfo {
  std::string name;               ///< e.g. "uroce0"
  std::string driver;             ///< the port's poll-mode driver, e.g. "net_memif"
  EthAddr mac{};                  ///< the port's Ethernet address
  std::vector<Gid> gids;          ///< the GID table by sgid_index; configured addresses come first
  std::string kernel_interface;   ///< the kernel's interface whose addresses these are; empty: the device's own
  Mtu active_mtu = Mtu::mtu1024;  ///< largest path MTU that the port carries
  bool link_up = false;           ///< when the device was opened; asynchronous events report changes
  uint32_t engines = 1;           ///< number of engines, each on its own lcore; see QpInit::engine
  // This program may have so many. With a daemon: its user's part, over all programs of the user together.
  uint32_t max_qp = 0;
  uint32_t max_qp_wr = 0;  ///< work requests per queue
  uint32_t max_cq = 0;
  uint32_t max_cqe = 0;  ///< entries per completion queue
  uint32_t max_mr = 0;   ///< memory regions and windows together
  uint32_t max_mw = 0;
  uint32_t max_srq = 0;
  uint32_t max_ah = 0;
  uint32_t max_pd = 0;
  uint32_t max_multicast_attach = 0;  ///< queue pairs attached to multicast groups, counted per group
  uint32_t max_flow = 0;              ///< receive rules; 0: this program may have no raw packet queue pairs
  uint32_t max_sge = kMaxSge;
  uint32_t max_inline = kMaxInline;
  uint32_t max_rd_atomic = kMaxRdAtomic;
  uint64_t max_message = kMaxMessage;  ///< bytes
  /// Bytes of DeviceMemory that one Context may have. The library's own limit, so it does not come from the daemon.
  uint64_t max_device_memory = kMaxDeviceMemory;
};

/// One completion (ibv_poll_cq(3)).
struct Completion {
  uint64_t wr_id = 0;  ///< as posted
  WcStatus status = WcStatus::success;
  WcOpcode opcode = WcOpcode::send;  ///< valid only when `status` is success
  uint32_t byte_len = 0;             ///< receives and READs: bytes written to memory
  uint32_t imm_or_key = 0;           ///< immediate data in host order, or the invalidated rkey; `flags` tells which
  uint32_t qpn = 0;                  ///< this side's QP
  uint32_t src_qpn = 0;              ///< UD: the sender's QP
  WcFlags flags{};
  uint32_t vendor_error = 0;  ///< the engine's own reason for an error, or 0
  uint64_t timestamp_ns = 0;  ///< when the completion was written; see Context::clock_ns()
  uint32_t flow_tag = 0;      ///< raw packets: FlowRule::tag of the rule that gave the frame
  /// Raw packets, UD: the received frame's 802.1Q tag (priority 3 bits, DEI 1 bit, VLAN id 12 bits); 0 without one.
  uint16_t vlan_tag = 0;
};

/// How WrOpcode::bind_mw binds a memory window (ibv_bind_mw(3); IBTA vol. 1, 10.6.7.2).
struct WindowBind {
  uint32_t rkey = 0;     ///< the window's new rkey: MemoryWindow::rkey() with low 8 bits of the caller's choice
  uint32_t lkey = 0;     ///< MemoryRegion::lkey() of a region with Access::mw_bind, of the window's domain
  uint64_t addr = 0;     ///< first byte of the window, by the region's addresses
  uint64_t length = 0;   ///< bytes; 0 unbinds a window of type 1
  AccessFlags access{};  ///< the peer's rights; with Access::zero_based (type 2) its addresses count from the window's
                         ///< first byte
};

/// The target of WrOpcode::flush (IBTA vol. 1, annex A19). The peer's region and queue pair must offer each
/// placement (Access::flush_global, Access::flush_persistent).
struct FlushTarget {
  uint32_t length = 0;                           ///< bytes from SendRequest::remote_addr; ignored for a whole region
  PlacementFlags placement = Placement::global;  ///< one at least
  FlushScope scope = FlushScope::range;
};

/// One send work request (ibv_post_send(3)). `sges` or `inline_data` names the payload, never both; without either the
/// message has 0 bytes. FLUSH and ATOMIC WRITE have neither. With SendFlag::inline_data posting copies the payload,
/// from `inline_data` or from the addresses in `sges`; their lkeys are ignored, and the memory need be neither
/// registered nor kept. Without the flag the memory of `sges` must not change until the work request completes. The
/// array of entries is needed only during the call.
struct SendRequest {
  uint64_t wr_id = 0;  ///< the caller's; returned in the completion
  WrOpcode opcode = WrOpcode::send;
  SendFlags flags{};
  std::span<const Sge> sges{};               ///< local memory; READs and atomics write their result here
  std::span<const std::byte> inline_data{};  ///< only with SendFlag::inline_data
  uint32_t imm_or_key = 0;                   ///< immediate data in host order, or the rkey to invalidate
  uint64_t remote_addr = 0;                  ///< the peer's address; atomics, ATOMIC WRITE: a multiple of 8
  uint32_t rkey = 0;                         ///< the peer's key for that address
  uint64_t compare_add = 0;                  ///< FETCH_ADD: the addend; CMP_SWAP: the value to compare with
  uint64_t swap = 0;                         ///< CMP_SWAP, ATOMIC WRITE: the new value, as this host stores it
  WindowBind bind{};                         ///< bind_mw
  FlushTarget flush{};                       ///< FLUSH
  // UD: the datagram's destination.
  uint32_t ah = 0;           ///< AddressHandle::id() of a handle in the queue pair's domain
  uint32_t remote_qpn = 0;   ///< 24 bits; kMulticastQpn for a multicast group
  uint32_t remote_qkey = 0;  ///< with its high bit set, the QP's own Q_Key is sent (IBTA vol. 1, 10.2.5)
  /// XRC initiator: number() of the peer's shared receive queue, 24 bits. Every operation names one (annex A14): it
  /// lends its protection domain to WRITEs, READs and atomics.
  uint32_t remote_srqn = 0;
};

/// One receive work request (ibv_post_recv(3)). The memory belongs to the engine until the request completes; the array
/// of entries is needed only during the call.
struct RecvRequest {
  uint64_t wr_id = 0;           ///< the caller's; returned in the completion
  std::span<const Sge> sges{};  ///< local memory, with Access::local_write
};

/// An asynchronous event (ibv_get_async_event(3)).
struct AsyncEvent {
  AsyncEventType type{};
  uint32_t object = 0;  ///< by `type`: QPN, id of the completion queue or shared receive queue, or port number
};

class ProtectionDomain;

/// Registered memory (ibv_reg_mr(3)). The caller owns the memory, which must outlive this object. Destroying the object
/// ends the keys at once and returns when no engine reads or writes the memory any more. Work that still names a key
/// completes in error.
class UROCE_API MemoryRegion {
 public:
  MemoryRegion(MemoryRegion&&) noexcept = default;
  MemoryRegion& operator=(MemoryRegion&&) noexcept = default;

  uint32_t lkey() const;  ///< for this side's scatter/gather entries
  uint32_t rkey() const;  ///< for the peer's WRITEs, READs and atomics
  void* address() const;
  std::size_t length() const;  ///< bytes
  /// Changes the region under the same keys (ibv_rereg_mr(3)): its domain to `pd`, its memory to [address, address +
  /// length), its rights to `access`. A null pointer leaves that part as it is. Work that uses the keys meanwhile
  /// fails. Errors: EINVAL and those of ProtectionDomain::register_memory(): nothing has changed; ETIMEDOUT: the keys
  /// have ended.
  Result<void> reregister(const ProtectionDomain* pd, void* address, std::size_t length, const AccessFlags* access);
  /// A scatter/gather entry for the bytes [offset, offset + length) of this region. Not checked here: a work request
  /// that reaches beyond the region completes in error.
  Sge sge(std::size_t offset, uint32_t length) const;
  /// Number of memory windows that are bound to the region now.
  Result<uint32_t> windows() const;

 private:
  friend class ProtectionDomain;
  explicit MemoryRegion(std::shared_ptr<client::MrImpl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<client::MrImpl> impl_;
};

/// Device memory (ibv_alloc_dm(3)), all zero at first. A device in software has no memory of its own: this is memory of
/// the process that the program reaches through calls alone, as it would on a card, and that costs no moving of pages
/// when it is registered. A child of fork() shares it with its parent. Destroying the object frees the memory once the
/// last region of it is gone.
class UROCE_API DeviceMemory {
 public:
  DeviceMemory(DeviceMemory&&) noexcept = default;
  DeviceMemory& operator=(DeviceMemory&&) noexcept = default;

  std::size_t length() const;  ///< bytes
  /// Copies `from` to [offset, offset + from.size()) (ibv_memcpy_to_dm). Any thread; not ordered with engines that
  /// read or write the same bytes. Errors: EINVAL (beyond the end).
  Result<void> copy_to(std::size_t offset, std::span<const std::byte> from);
  /// Copies [offset, offset + to.size()) to `to` (ibv_memcpy_from_dm). The same holds.
  Result<void> copy_from(std::size_t offset, std::span<std::byte> to) const;

 private:
  friend class Context;
  friend class ProtectionDomain;
  explicit DeviceMemory(std::shared_ptr<client::DmImpl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<client::DmImpl> impl_;
};

/// A memory window (ibv_alloc_mw(3); IBTA vol. 1, 10.6.7.2): a key to part of a region. Work requests bind and
/// invalidate it, in the order of the send queue.
///
/// WrOpcode::bind_mw binds it for the requests that are posted after it. A type 1 window may be bound again at any
/// time, which ends its earlier key. A type 2 window serves only the queue pair that bound it. It must be invalidated
/// before it is bound again: by WrOpcode::local_invalidate on that queue pair, which waits until all earlier requests
/// are complete, or by the peer's SEND with invalidate. A bind that is not allowed completes with
/// WcStatus::mw_bind_error, an invalidation that is not allowed with local_qp_operation_error. When the region is
/// destroyed, the window's key is invalid. Destroying the window ends its key at once and returns when no engine uses
/// it any more.
class UROCE_API MemoryWindow {
 public:
  MemoryWindow(MemoryWindow&&) noexcept = default;
  MemoryWindow& operator=(MemoryWindow&&) noexcept = default;

  WindowType type() const;
  /// The rkey as allocated. A bind chooses the low 8 bits; the upper 24 stay.
  uint32_t rkey() const;
  /// The next rkey of the same window (ibv_inc_rkey(3)).
  static constexpr uint32_t next_rkey(uint32_t rkey) { return (rkey & ~0xffu) | ((rkey + 1) & 0xff); }

 private:
  friend class ProtectionDomain;
  explicit MemoryWindow(std::shared_ptr<client::MwImpl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<client::MwImpl> impl_;
};

/// Destination of datagrams (ibv_create_ah(3)): a unicast peer or a multicast group. Send requests of queue pairs in
/// its domain name it by its id. Destroying it ends the id at once; keep it until the sends that name it have
/// completed.
class UROCE_API AddressHandle {
 public:
  AddressHandle(AddressHandle&&) noexcept = default;
  AddressHandle& operator=(AddressHandle&&) noexcept = default;

  uint32_t id() const;  ///< for SendRequest::ah

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

  /// Registers [address, address + length) for local reads and the rights in `access`. `length` is in bytes. Work
  /// requests and peers name the memory by the addresses of this process, or from 0 with Access::zero_based. Errors:
  /// EINVAL (length wraps; remote write or atomic without local write), EOPNOTSUPP (Access::flush_persistent), ENOMEM
  /// (the device's max_mr). A region of 0 bytes has keys, and only messages of 0 bytes can use them.
  Result<MemoryRegion> register_memory(void* address, std::size_t length, AccessFlags access);
  /// The same, but work requests and peers use `iova` as the address of the first byte (ibv_reg_mr_iova(3)).
  Result<MemoryRegion> register_memory(void* address, std::size_t length, AccessFlags access, uint64_t iova);
  /// Registers [offset, offset + length) of device memory (ibv_reg_dm_mr(3)). Work requests and peers name it from 0 at
  /// `offset`, whether or not `access` has Access::zero_based. Errors: as register_memory(); EINVAL (beyond the end of
  /// `memory`, or memory of another context).
  Result<MemoryRegion> register_device_memory(const DeviceMemory& memory, std::size_t offset, std::size_t length,
                                              AccessFlags access);
  /// Registers [offset, offset + length) of the dma-buf `fd` (ibv_reg_dmabuf_mr(3)), which may be closed afterwards.
  /// Work requests and peers use `iova` as the address of the first byte; both have the same last 12 bits. The region
  /// has no address(). The device reads and writes the buffer with the processor: DMA_BUF_IOCTL_SYNC, where the
  /// exporter needs it, is the program's. Errors: as register_memory(); EINVAL (no dma-buf, beyond its end), EBADF,
  /// EOPNOTSUPP (a dma-buf that programs cannot map), EACCES (an exporter that others would wait for, where the program
  /// is not privileged).
  Result<MemoryRegion> register_dmabuf(int fd, uint64_t offset, std::size_t length, uint64_t iova, AccessFlags access);
  /// A region without memory (ibv_alloc_null_mr(3)), for scatter/gather entries of any address and length: gathering
  /// reads zeros, and what is scattered to it is dropped. Peers cannot use it; its rkey() is 0. Errors: ENOMEM
  /// (max_mr).
  Result<MemoryRegion> create_null_region();
  /// A memory window that is not bound yet. Errors: EINVAL (no such type), ENOMEM (max_mr).
  Result<MemoryWindow> create_memory_window(WindowType type);
  /// An address handle. Resolves the Ethernet address of a unicast `av.dgid` first; that of a group follows from its
  /// GID. Errors: EINVAL (sgid_index, dgid or flow_label; mixed address families), EHOSTUNREACH (no answer within 3 s),
  /// ENETUNREACH (no route), ENOMEM (max_ah).
  Result<AddressHandle> create_address_handle(const AddressVector& av);

 private:
  friend class Context;
  friend class MemoryRegion;
  explicit ProtectionDomain(std::shared_ptr<client::PdImpl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<client::PdImpl> impl_;
};

/// A completion channel (ibv_create_comp_channel(3)): delivers the events of completion queues.
class UROCE_API CompletionChannel {
 public:
  CompletionChannel(CompletionChannel&&) noexcept = default;
  CompletionChannel& operator=(CompletionChannel&&) noexcept = default;

  /// A descriptor for poll(2), select(2) or epoll(7): readable while an event waits. Take events with wait(), never by
  /// reading the descriptor. The channel owns it.
  int fd() const;
  /// Waits for the next event and returns the id of its completion queue. nullopt after `timeout`, at once when the
  /// daemon is gone (Context::lost()), and when a signal's handler has run. nanoseconds::max() waits for ever, and a
  /// handler with SA_RESTART does not end that wait, as with read(2). On the thread that runs an embedded stack, this
  /// keeps the engines running.
  std::optional<uint32_t> wait(std::chrono::nanoseconds timeout);

 private:
  friend class Context;
  explicit CompletionChannel(std::shared_ptr<client::ChannelImpl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<client::ChannelImpl> impl_;
};

/// Parameters of a new completion queue (struct ibv_cq_init_attr_ex).
struct CqOptions {
  /// A completion without room is dropped and counted (completions_dropped). Else it is an error of queue and QP.
  bool ignore_overrun = false;
};

/// A completion queue (ibv_create_cq(3)).
class UROCE_API CompletionQueue {
 public:
  CompletionQueue(CompletionQueue&&) noexcept = default;
  CompletionQueue& operator=(CompletionQueue&&) noexcept = default;

  /// Unique among the device's completion queues that exist.
  uint32_t id() const;
  /// Capacity in completions for each engine; at least the number asked for.
  uint32_t entries() const;
  /// Changes the capacity and keeps the completions that were not polled yet (ibv_resize_cq(3)). No thread may poll
  /// meanwhile. Errors: EINVAL (out of 1..max_cqe, or more completions are waiting), ENOMEM.
  Result<void> resize(uint32_t entries);
  /// From now on an event waits until `count` completions that it is armed for have come, or until `period_us`
  /// microseconds after the first of them (ibv_modify_cq(3)). Each engine counts its own. A count of 0 or 1, or a
  /// period of 0, ends that. Polling is not affected. Any thread.
  Result<void> moderate(uint16_t count, uint16_t period_us);
  /// Moves up to `out.size()` completions into `out`, oldest first for each QP. Returns how many (ibv_poll_cq(3)).
  std::size_t poll(std::span<Completion> out);
  /// Asks for one event on the channel at the next completion, or with `solicited_only` at the next solicited or failed
  /// one (ibv_req_notify_cq(3)). Poll once more after arming: completions that arrived before it raise no event. A
  /// request for any completion stays until it fires; `solicited_only` does not narrow it. Any thread. Errors: EINVAL
  /// (no channel).
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
  uint32_t max_wr() const;   ///< capacity in receives; at least the number asked for
  uint32_t max_sge() const;  ///< entries of each receive
  /// Posts one receive (ibv_post_srq_recv(3)). Returns 0, ENOMEM (queue full) or EINVAL (more entries than max_sge).
  int post_recv(const RecvRequest& request);
  /// Asks for one srq_limit_reached event when fewer than `limit` receives remain; 0 cancels it (ibv_modify_srq(3)).
  /// The engine checks the limit whenever it takes a receive. Errors: EINVAL (above max_wr()).
  Result<void> set_limit(uint32_t limit);
  /// Changes max_wr() to at least `max_wr` while queue pairs go on receiving (IBV_SRQ_MAX_WR of ibv_modify_srq(3)).
  /// Posted receives stay, in order. Not together with post_recv(). Errors: EINVAL (0, above the device's max_qp_wr,
  /// fewer than the receives posted, or below the limit that is set), ENOMEM: nothing has changed.
  Result<void> resize(uint32_t max_wr);

 private:
  friend class Context;
  explicit SharedReceiveQueue(std::shared_ptr<client::SrqImpl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<client::SrqImpl> impl_;
};

/// An XRC domain (ibv_open_xrcd(3); IBTA vol. 1, annex A14). The requests of an XRC initiator name a shared receive
/// queue of the domain that their target queue pair has, so that one connection serves many queues and programs.
/// Destroying the object closes the domain for this holder; shared receive queues and target queue pairs keep it.
class UROCE_API XrcDomain {
 public:
  XrcDomain(XrcDomain&&) noexcept = default;
  XrcDomain& operator=(XrcDomain&&) noexcept = default;

 private:
  friend class Context;
  explicit XrcDomain(std::shared_ptr<client::XrcDomainImpl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<client::XrcDomainImpl> impl_;
};

/// How to open an XRC domain (struct ibv_xrcd_init_attr).
struct XrcDomainInit {
  /// Openers with descriptors of one inode get one domain. -1: nobody else gets it. The caller may close it after the
  /// call.
  int fd = -1;
  bool create = true;      ///< O_CREAT: make the domain if the inode has none
  bool exclusive = false;  ///< O_EXCL: refuse an inode that has one
};

/// Parameters of a new queue pair (struct ibv_qp_init_attr).
struct QpInit {
  QpType type = QpType::rc;
  QpCap cap{};              ///< at most the device's max_qp_wr, max_sge, max_inline; see QueuePair::cap()
  bool signal_all = false;  ///< treat every send work request as if it had SendFlag::signaled
  int engine = -1;  ///< 0..DeviceInfo::engines - 1; -1: the shared receive queue's engine, else the next in turn
  Retransmission retransmission = Retransmission::device_default;                ///< RC and XRC only
  CongestionAlgorithm congestion_control = CongestionAlgorithm::device_default;  ///< RC and XRC only
};

/// A receive rule of raw packet queue pairs (ibv_create_flow(3)). The rule ends with this object.
class UROCE_API Flow {
 public:
  Flow(Flow&&) noexcept = default;
  Flow& operator=(Flow&&) noexcept = default;

  /// The frames that the rule has counted, on all engines. Any thread.
  Result<FlowCounters> counters() const;

 private:
  friend class Context;
  friend class QueuePair;
  explicit Flow(std::shared_ptr<client::FlowImpl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<client::FlowImpl> impl_;
};

/// A queue pair (ibv_create_qp(3)).
///
/// One of type QpType::raw_packet sends and receives whole Ethernet frames: a send's payload begins with the Ethernet
/// header and ends before the FCS, and a receive gets the same, Completion::byte_len long. Nothing is added, and no
/// checksum is computed or checked. modify() takes it from RESET over INIT (with QpAttrBit::port) and RTR to RTS. A
/// send completes with local_length_error when it is shorter than the header or longer than the port's MTU allows, and
/// with local_qp_operation_error when it may carry RoCE (UDP port 4791). The queue pair is then in SQE. It receives the
/// frames that its rules take (create_flow()); one without a receive posted, or longer than it, is lost. A frame to the
/// device's own address goes to the rules of the device alone, and one to an Ethernet group to both rules and wire.
class UROCE_API QueuePair {
 public:
  QueuePair(QueuePair&&) noexcept = default;
  QueuePair& operator=(QueuePair&&) noexcept = default;

  uint32_t qpn() const;  ///< 24 bits
  /// The real sizes; each is at least the size asked for.
  const QpCap& cap() const;
  /// Posts one send work request (ibv_post_send(3)). Returns 0, or:
  /// ENOMEM: the send queue is full. Room comes back as work requests complete; unsignaled ones give theirs back with
  /// the next signaled completion. EINVAL: more entries or inline bytes than the QP has; an opcode that this QP type
  /// lacks; entries or inline bytes with local_invalidate or bind_mw; a QP that this handle has not brought to RTS. In
  /// SQD the request waits. In the error state it completes as flushed. Faults that the engine finds later complete in
  /// error.
  int post_send(const SendRequest& request);
  /// Posts several requests in order and rings the doorbell once. Returns how many it posted. `error`, if given, is set
  /// to 0 or to the errno value of the first request that was refused.
  std::size_t post_send(std::span<const SendRequest> requests, int* error = nullptr);
  /// Posts one receive work request (ibv_post_recv(3)). Returns 0, ENOMEM (receive queue full) or EINVAL (more entries
  /// than max_recv_sge, QP in RESET, QP with a shared receive queue).
  int post_recv(const RecvRequest& request);
  /// Changes state and attributes (ibv_modify_qp(3); IBTA vol. 1, 11.2.5.2). `mask` says which members of `attr` count.
  /// With an address vector, the call first resolves the peer's Ethernet address. A change to RESET forgets all posted
  /// requests; completions that were already written stay in their queues. Errors, with nothing changed: EINVAL (a
  /// missing or forbidden attribute, or a value out of range; the text names it), EHOSTUNREACH (no answer within 3 s),
  /// ENETUNREACH (no route).
  Result<void> modify(const QpAttr& attr, QpAttrMask mask);
  /// One change, as modify() takes it.
  struct Step {
    QpAttr attr{};
    QpAttrMask mask{};
  };
  /// Applies up to 6 changes in order, each as if alone, and stops at the first that fails. Through the daemon they
  /// cost one call.
  Result<void> modify(std::span<const Step> steps);
  /// Like modify(), without waiting. The step travels with the next call that changes or queries the queue pair, and
  /// that call fails when the step is refused. Use it for a step after which nothing happens by itself, such as the one
  /// to INIT. Posting takes the new state into account at once.
  void modify_with_next(const Step& step);
  /// A call of a CmId that concerns this queue pair, too: see CmCarrier. It travels over the connection of the queue
  /// pair's device, in order with the other calls for it, and nothing waits for its result. The steps of
  /// modify_with_next() travel with it, and stay. Returns the call's position for Context::settle(). Errors: EIO (the
  /// daemon is gone), EOPNOTSUPP (a device of this process).
  Result<uint64_t> carry(uint16_t operation, std::span<const std::byte> request);
  /// The daemon moves the queue pair to `state`, or has done so, as a carried call asked it to. Posting takes that into
  /// account at once. The steps of modify_with_next() are done. No effect in a later state.
  void assume(QpState state);
  /// The attributes as they are now (ibv_query_qp(3)). `state` includes changes that the engine made, such as to error.
  Result<QpAttr> query() const;

  /// The far end of a connection, with the values that it sent to this side.
  struct Peer {
    Gid gid{};         ///< one of the peer's DeviceInfo::gids, of the same family as this side's address
    uint32_t qpn = 0;  ///< 24 bits
    uint32_t psn = 0;  ///< 24 bits: the first PSN that the peer sends
  };
  /// See QpAttr for the meaning. `path_mtu` must equal the peer's, `psn` must be the one that the peer was told, and
  /// each side's max_rd_atomic must not exceed the other's max_dest_rd_atomic.
  struct ConnectOptions {
    uint32_t psn = 0;  ///< 24 bits: the first PSN that this side sends
    uint8_t sgid_index = 0;
    Mtu path_mtu = Mtu::mtu1024;
    AccessFlags access = AccessFlags(Access::local_write) | Access::remote_write | Access::remote_read |
                         Access::remote_atomic | Access::flush_global;
    uint8_t max_rd_atomic = 16;
    uint8_t max_dest_rd_atomic = 16;
    uint8_t min_rnr_timer = 12;
    uint8_t timeout = 14;
    uint8_t retry_cnt = 7;
    uint8_t rnr_retry = 7;
    uint8_t traffic_class = 0;
    uint8_t hop_limit = 64;
  };
  /// RC, UC and XRC: from RESET to RTS in one call, for applications that exchange addresses themselves. Post receives
  /// before the peer sends. Options that the type does not have are ignored. Errors: those of modify() (the QP is then
  /// in RESET, INIT or RTR), EINVAL (UD, which has no peer).
  Result<void> connect(const Peer& peer, const ConnectOptions& options);
  /// UD: from RESET to RTS in one call. Datagrams with another Q_Key are dropped. Each received datagram has 40 bytes
  /// in front: the IPv6 header, or 20 bytes without meaning and then the IPv4 header (annex A17). Receives need room
  /// for them, and Completion::byte_len counts them. `psn` is the first PSN to send. Errors: those of modify(); EINVAL
  /// (RC, UC).
  Result<void> start(uint32_t qkey, uint32_t psn = 0);

  /// UD: receives datagrams to the group, from the wire and from this device (ibv_attach_mcast(3)). The device joins
  /// the group on the link (IGMPv3, MLDv2). Attaching twice changes nothing. Destroying the queue pair detaches it.
  /// Errors: EINVAL (not UD, not a multicast GID, not attached), ENOMEM (max_multicast_attach).
  Result<void> attach_multicast(const Gid& group);
  Result<void> detach_multicast(const Gid& group);

  /// Raw packets: receives the frames that `rule` takes, in whatever state allows receiving. The rule keeps the queue
  /// pair in existence. Errors: EINVAL (another type of queue pair; the rule, naming its field), ENOMEM (max_flow),
  /// EPERM (a sniffer, through the daemon, without privilege).
  Result<Flow> create_flow(const FlowRule& rule);

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
  Result<QueuePair> create_qp(const ProtectionDomain& pd, const CompletionQueue& send_cq,
                              const CompletionQueue& recv_cq, const QpInit& init,
                              const SharedReceiveQueue* srq = nullptr);
  /// Receive-side scaling: a rule that spreads its frames over several raw packet queue pairs. The hash of a frame,
  /// modulo the size of `table`, is the index of the queue pair that gets it; one may stand there several times. A
  /// sniffer spreads its copies likewise. The rule keeps all of them in existence. Errors: those of
  /// QueuePair::create_flow(); EINVAL (a table of another size than a power of two, 1..kMaxIndirection; a queue pair of
  /// another context; unknown fields of the hash).
  Result<Flow> create_flow(std::span<const QueuePair* const> table, const FlowRule& rule, const RxHash& hash);
  /// Lets queue pairs of this context carry calls of the ids of a ConnectionManager, which gave the pass. Errors:
  /// EINVAL (no such pass, or of another user), EOPNOTSUPP (a device of this process).
  Result<void> lend(const CmPass& pass);
  /// Returns once the daemon has handled the carried call at `position` (QueuePair::carry()), and all before it.
  /// Errors: EIO (the daemon is gone).
  Result<void> settle(uint64_t position);
  /// A descriptor that is readable while an asynchronous event waits; used like CompletionChannel::fd().
  int async_fd() const;
  /// Whether the daemon that serves this device has ended or closed the connection. All calls then fail with EIO, and
  /// work that was posted completes with WcStatus::flushed. False for a device of this process. Any thread; at most one
  /// system call.
  bool lost() const;
  /// The next asynchronous event of this context's objects or of the port; nullopt as from CompletionChannel::wait().
  /// When the daemon ends, the last event is device_fatal. At most max_qp + 1024 events wait; further ones are lost.
  std::optional<AsyncEvent> next_async_event(std::chrono::nanoseconds timeout);
  /// Counters of the device by name ("rx_packets", "drop_icrc", ...), summed over its engines. apps/README.md lists
  /// them.
  std::vector<std::pair<std::string, uint64_t>> counters() const;

  /// For the library. Applications get a Context from Stack::open() or open_daemon_device().
  explicit Context(std::shared_ptr<client::ContextImpl> impl) : impl_(std::move(impl)) {}

 private:
  std::shared_ptr<client::ContextImpl> impl_;
};

}  // namespace uroce
