// One end of a ping: a queue pair with buffers, and the steps by which the connection manager connects it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <uroce/cm.h>
#include <uroce/daemon.h>

namespace uroce::cli {

class PingEnd {
 public:
  static constexpr uint32_t kBuffers = 4;
  static constexpr uint32_t kBufferBytes = 4096;

  /// On the device of that name. Errors: those of open_daemon_device() and of the objects.
  static Result<std::unique_ptr<PingEnd>> open(const std::string& device, const DaemonOptions& daemon);

  uint32_t qpn() const { return qp_.qpn(); }
  /// INIT, all receives posted, RTR, RTS, with the attributes that the id knows.
  Result<void> connect_by(const CmId& id);
  /// Sends the first bytes of a buffer. False when the queue pair takes none.
  bool send(uint32_t buffer, uint32_t bytes);
  bool receive(uint32_t buffer);
  /// False when there is no completion.
  bool poll(Completion& completion) { return cq_.poll({&completion, 1}) != 0; }

 private:
  PingEnd(Context context, ProtectionDomain pd, CompletionQueue cq, QueuePair qp);

  Context context_;
  ProtectionDomain pd_;
  CompletionQueue cq_;
  std::vector<std::byte> memory_;
  Result<MemoryRegion> mr_;
  QueuePair qp_;
};

}  // namespace uroce::cli
