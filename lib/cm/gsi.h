// Queue pair 1 of a device: the way of the connection manager's datagrams, through verbs queues like everybody's.
//
// One thread at a time.
#pragma once

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
#include "cm/ib_cm.h"
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
  Counter malformed;    ///< no MAD of 256 bytes
  Counter unreachable;  ///< given up: nobody answers for the destination, or no route
  Counter overflow;     ///< given up: too many wait to be sent
};

class Gsi {
 public:
  /// Takes the device's QP1. Errors: EBUSY (another has it), ENOMEM, EMFILE, ETIMEDOUT, ENODEV.
  static Result<std::unique_ptr<Gsi>> open(const std::shared_ptr<control::Device>& device);
  Gsi(const Gsi&) = delete;
  Gsi& operator=(const Gsi&) = delete;

  /// Readable when take() has something to do.
  int fd() const { return channel_->fd(); }
  using Handler = std::function<void(const Gid& source, const Gid& destination, std::span<const std::byte> mad)>;
  /// Hands over what arrived, at most a few hundred datagrams, and sends what waited for room. True: call again.
  bool take(const Handler& handler);
  /// Queues a datagram. One to an address that is not known yet waits for it, at most 3 s.
  void send(const CmPath& path, const Mad& mad, Nanos now);
  /// Tries again to send what waits for an address; to be called every few milliseconds while waiting() is true.
  void retry(Nanos now);
  bool waiting() const { return !unresolved_.empty(); }
  const GsiCounters& counters() const { return counters_; }

 private:
  struct Outgoing {
    CmPath path;
    Mad mad;
    Nanos deadline;
  };
  using Destination = std::tuple<Gid, Gid, uint8_t, uint8_t, uint32_t>;

  Gsi() = default;
  void post_receive(uint32_t slot);
  void accept(const Completion& completion, const Handler& handler);
  /// 0, ENOMEM (no room: later), EHOSTUNREACH (not known: later), others for good.
  int try_send(const CmPath& path, const Mad& mad);
  Result<uint32_t> handle_for(const CmPath& path);
  void flush();

  std::shared_ptr<control::DeviceSession> session_;
  std::shared_ptr<control::Pd> pd_;
  std::shared_ptr<control::CqChannel> channel_;
  std::shared_ptr<control::Cq> cq_;
  std::vector<std::byte> memory_;  // before the region that names it
  std::shared_ptr<control::Region> region_;
  std::shared_ptr<control::ControlQp> qp_;  // ends first
  std::unique_ptr<queues::CqPoller> poller_;
  std::unique_ptr<queues::SendQueue> send_queue_;
  queues::RecvQueue recv_queue_;
  std::map<Destination, std::shared_ptr<control::AddressHandle>> handles_;
  std::deque<Outgoing> unsent_;      // for want of room in the send queue
  std::deque<Outgoing> unresolved_;  // for want of an Ethernet address
  uint32_t outstanding_ = 0;         // sends
  bool stopped_ = false;             // by a send that failed
  GsiCounters counters_;
};

}  // namespace uroce::cm
