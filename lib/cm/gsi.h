// Queue pair 1 of a device, the general services interface. It sends and receives the connection manager's MADs through
// ordinary verbs queues.
//
// One thread at a time.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <tuple>
#include <vector>

#include <uroce/error.h>
#include <uroce/types.h>

#include "base/counter.h"
#include "base/time.h"
#include "cm/ib/mad.h"
#include "cm/ib/request.h"
#include "cm/snapshot.h"
#include "control/address_handle.h"
#include "control/cq.h"
#include "control/cq_channel.h"
#include "control/device_session.h"
#include "control/qp.h"
#include "control/region.h"
#include "queues/cq_poller.h"
#include "queues/recv_queue.h"
#include "queues/send_queue.h"

namespace uroce::cm {

struct GsiCounters {
  Counter sent, received;
  Counter malformed;    ///< received datagrams that are not a MAD of 256 bytes
  Counter unreachable;  ///< dropped, because the destination does not resolve or has no route
  Counter overflow;     ///< dropped, because too many wait to be sent
};

class Gsi {
 public:
  /// Opens the device's QP1. Errors: EBUSY (it is open already), ENOMEM, EMFILE, ETIMEDOUT, ENODEV.
  static Result<std::unique_ptr<Gsi>> open(const std::shared_ptr<control::Device>& device);
  Gsi(const Gsi&) = delete;
  Gsi& operator=(const Gsi&) = delete;

  /// Whether take() has work. For a caller who comes again and again, and waits for nothing.
  bool ready() { return poller_->ready() || !arrived_.empty(); }
  /// This descriptor is readable when take() has work. Call read_events() then, and take() after it.
  int fd() const { return channel_->fd(); }
  void read_events();
  using Handler = std::function<void(const Gid& source, const Gid& destination, std::span<const std::byte> mad)>;
  /// The next step of take()'s caller: it waits for fd(), or comes back by itself, and fd() tells nothing new until
  /// then.
  enum class Then : uint8_t { waits, comes_back };
  /// Passes received MADs to `handler`, at most a few hundred, and sends MADs that waited for room. Returns true when
  /// the caller must call again.
  bool take(const Handler& handler, Then then = Then::waits);
  /// Queues a MAD. If the Ethernet address of its destination is not known, it waits for that, at most 3 s. It leaves
  /// with wake_engine() at the latest.
  void send(const CmPath& path, const Mad& mad, Nanos now);
  /// Tries again to send MADs that wait for an address, the less often the longer they wait. Call it at next_retry().
  void retry(Nanos now);
  /// kNever while none waits.
  Nanos next_retry() const;
  /// Any thread, also beside the one that sends: wakes the engine if it sleeps and MADs were queued.
  void wake_engine() {
    if (wake_owed_.load(std::memory_order_relaxed) && wake_owed_.exchange(false))
      session_->device()->wake(qp_->engine());
  }
  const GsiCounters& counters() const { return counters_; }

  // A planned restart (gsi_snapshot.cc).
  /// While it is held, no MAD leaves, and those that are queued wait.
  void hold(bool held) { held_ = held; }
  /// While it is held, and the engine is paused: the MADs that have not left, and those that nobody has looked at. Both
  /// stay here, too. A MAD whose end is not known yet may be among them: a peer takes it for a repetition.
  GsiSnapshot snapshot(Nanos now);
  /// They are sent, and handled, once this is not held any more.
  void adopt(GsiSnapshot snapshot, Nanos now);
  void count_before(Counter GsiCounters::* which, uint64_t count) { (counters_.*which).add(count); }

 private:
  struct Outgoing {
    CmPath path;
    Mad mad;
    Nanos since;
    Nanos again;  // while unresolved
  };
  using Destination = std::tuple<Gid, Gid, uint8_t, uint8_t, uint32_t>;

  Gsi() = default;
  void post_receive(uint32_t slot);
  void accept(const Completion& completion, const Handler& handler);
  /// Returns 0, ENOMEM (no room; try later), EHOSTUNREACH (address not known; try later), or a final error.
  int try_send(const CmPath& path, const Mad& mad);
  Result<uint32_t> handle_for(const CmPath& path);
  void flush();
  /// A MAD whose destination's Ethernet address is not known.
  void await_address(Outgoing waiting);
  void add_unconsumed(GsiSnapshot& out) const;

  std::shared_ptr<control::DeviceSession> session_;
  std::shared_ptr<control::Pd> pd_;
  std::shared_ptr<control::CqChannel> channel_;
  std::shared_ptr<control::Cq> cq_;
  std::vector<std::byte> memory_;  // declared before its region, so that it is destroyed after it
  std::shared_ptr<control::Region> region_;
  std::shared_ptr<control::ControlQp> qp_;  // destroyed before the objects that it uses
  std::unique_ptr<queues::CqPoller> poller_;
  std::unique_ptr<queues::SendQueue> send_queue_;
  queues::RecvQueue recv_queue_;
  std::map<Destination, std::shared_ptr<control::AddressHandle>> handles_;
  std::deque<Outgoing> unsent_;             // wait for room in the send queue
  std::deque<Outgoing> unresolved_;         // wait for an Ethernet address
  std::deque<IncomingSnapshot> arrived_{};  // taken from the completion queue, and not handled
  uint64_t sent_ = 0, completed_ = 0;       // the number of the last send, and of the last one known to be completed
  std::atomic<bool> wake_owed_{false};
  bool held_ = false;
  bool stopped_ = false;  // a failed send has moved the QP to SQE
  GsiCounters counters_;
};

}  // namespace uroce::cm
