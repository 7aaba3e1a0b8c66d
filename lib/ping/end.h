// One end of a ping: a queue pair with buffers, and the steps by which the connection manager connects it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <uroce/cm.h>
#include <uroce/verbs.h>

namespace uroce::ping {

/// Port of the RDMA connection manager (TCP port space) on which pings are answered.
inline constexpr uint16_t kPort = 4791;

class End {
 public:
  static constexpr uint32_t kBuffers = 4;
  static constexpr uint32_t kBufferBytes = 4096;

  /// On an open device. Errors: those of the objects.
  static Result<std::unique_ptr<End>> open(Context context);

  uint32_t qpn() const { return qp_.qpn(); }
  /// INIT, all receives posted, RTR, RTS, with the attributes that the id knows, but without rights for the peer.
  Result<void> connect_by(const CmId& id);
  /// Sends the first bytes of a buffer. False when the queue pair takes none.
  bool send(uint32_t buffer, uint32_t bytes);
  bool receive(uint32_t buffer);
  /// False when there is no completion.
  bool poll(Completion& completion) { return cq_.poll({&completion, 1}) != 0; }
  /// Readable after arm() and a completion. Poll once more after arming.
  int fd() const { return channel_.fd(); }
  void arm();

 private:
  End(Context context, ProtectionDomain pd, CompletionChannel channel, CompletionQueue cq, QueuePair qp);

  Context context_;
  ProtectionDomain pd_;
  CompletionChannel channel_;
  CompletionQueue cq_;
  std::vector<std::byte> memory_;
  Result<MemoryRegion> mr_;
  QueuePair qp_;
};

}  // namespace uroce::ping
