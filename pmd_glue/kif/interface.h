// A port's way to an interface of the kernel: a packet socket for each queue.
//
// DPDK's net_af_packet passes one frame at a time. The kernel's cost is per traversal, not per byte, so here runs of
// frames pass as super-frames (super_frame.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <uroce/error.h>
#include <uroce/types.h>

#include "message/belongings.h"
#include "pmd_glue/interface_name.h"
#include "pmd_glue/kif/name.h"
#include "pmd_glue/kif/readable.h"
#include "pmd_glue/kif/receiver.h"
#include "pmd_glue/kif/sender.h"
#include "pmd_glue/kif/socket.h"

namespace uroce::glue::kif {

inline constexpr uint16_t kMaxQueues = 16;

class Interface {
 public:
  /// Errors: ENODEV and the like; each sentence names the interface.
  static Result<std::unique_ptr<Interface>> open(const KernelInterface& on);

  /// Any thread.
  std::string name() const { return name_.get(); }
  EthAddr mac() const { return mac_; }
  /// The kernel's index of the interface; 0 while it is away.
  unsigned index() const { return index_.load(std::memory_order_relaxed); }
  /// How often it came back as another one, which may have the same index.
  uint32_t returns() const { return returns_.load(std::memory_order_relaxed); }
  /// Whether super-frames can come, whoever sent them.
  bool receives_super_frames() const { return kernel_knows_; }

  /// Opens the sockets of `queues` queues, whose frames have the tag `vlan` (0: none) and come in buffers of `pool`.
  /// Errors: those of Socket::open().
  Result<void> start(uint16_t queues, uint16_t vlan, rte_mempool* pool);
  /// The same, with the sockets of the daemon before, which nobody may use before awaken(). Their names begin with
  /// `device`. Errors: EINVAL (one is missing, or no such socket).
  Result<void> inherit(uint16_t queues, uint16_t vlan, rte_mempool* pool, message::Belongings& belongings,
                       const std::string& device);
  /// Errors: those of Readable::watch(). Its queue is then looked at when a nap ends.
  Result<void> awaken();
  /// Between start() and stop(), any thread.
  void lend(message::Belongings& belongings, const std::string& device) const;
  /// No queue may be in use.
  void stop() { queues_.clear(); }

  /// The queue's thread, between start() and stop(), as those of Receiver and Sender.
  uint16_t receive(uint16_t queue, std::span<rte_mbuf*> out) {
    Queue& q = *queues_[queue];
    return q.receiver.receive(q.socket.fd(), out);
  }
  uint16_t receive_rest(uint16_t queue, std::span<rte_mbuf*> out) { return queues_[queue]->receiver.receive_rest(out); }
  Behind behind(uint16_t queue) const { return queues_[queue]->receiver.behind(); }
  uint16_t send(uint16_t queue, std::span<rte_mbuf*> mbufs) {
    Queue& q = *queues_[queue];
    return q.sender.send(q.socket.fd(), mbufs);
  }
  /// Readable while frames wait.
  int descriptor(uint16_t queue) const { return queues_[queue]->readable.descriptor(); }

  /// Looks at the interface, and follows one that went and came back. True while it can send and receive. One thread.
  bool refresh();
  /// Counters of a queue, by name; nothing before start(). Any thread.
  std::vector<std::pair<std::string, uint64_t>> counters(uint16_t queue) const;
  /// How frames leave: a queue that sends them one by one counts for all. Any thread.
  Sending sending() const;
  /// The same, and how much may wait, in a few words.
  std::string description() const;

 private:
  struct Queue {
    Queue(Socket s, rte_mempool* pool, uint16_t tag, bool super_frames)
        : socket(std::move(s)), receiver(pool, tag), sender(super_frames) {}
    Socket socket;
    Readable readable;
    Receiver receiver;
    Sender sender;
    std::atomic<uint64_t> lost{0};
  };

  /// Opens the socket of one more queue, or a new one for a queue; `first` is that of the first queue, or null.
  Result<Socket> open_socket(const Socket* first) const;
  void add_queue(Socket socket, rte_mempool* pool);
  /// The index of the interface to which all sockets are attached; 0: they are not.
  unsigned attached() const;
  /// Follows the interface to the index that it has now. False while that fails.
  bool follow(unsigned index);
  Result<void> attach_again();
  void say_detached(const Error& why);
  /// Tells the operator what to do about frames that a queue's socket had no room for.
  void say_lost(const Queue& queue) const;

  InterfaceName name_;
  bool super_frames_ = true;  ///< asked for
  bool kernel_knows_ = true;  ///< super-frames
  EthAddr mac_{};
  std::atomic<unsigned> index_{0};
  std::atomic<uint32_t> returns_{0};
  SocketOptions options_{};
  uint16_t sockets_ = 1;  ///< that share the interface's frames, one for each engine
  std::vector<std::unique_ptr<Queue>> queues_;
  std::atomic<bool> refused_{false};  ///< super-frames of a queue
  bool said_lost_ = false;
  bool said_detached_ = false;
  uint32_t looks_to_wait_ = 0;  ///< until the next try to follow the interface
};

}  // namespace uroce::glue::kif
