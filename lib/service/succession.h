// A planned restart, on the side of the running daemon: a successor beside it asks for what it needs, says when it is
// ready, and takes over.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <uroce/error.h>

#include "message/belongings.h"
#include "message/operator_messages.h"
#include "message/succession_link.h"
#include "message/succession_messages.h"
#include "service/estate_versions.h"

namespace uroce::service {

/// The part of the clients' objects that a successor got.
struct Bequest {
  uint32_t queue_pairs = 0;
  uint32_t refused = 0;  ///< clients that end with their daemon
};

/// The daemon, as its server asks it. A client's thread makes the calls, one at a time.
class SuccessionHost {
 public:
  virtual ~SuccessionHost() = default;
  /// Errors: EOPNOTSUPP (a port cannot be handed over).
  virtual Result<std::vector<message::DeviceFacts>> facts() = 0;
  virtual message::Belongings lend() = 0;
  /// For the operator, without the obstacles that the server knows.
  virtual message::RestartRow restart_row() = 0;
  /// The successor, process `pid`, is ready: everything stands still, and goes over. Returns only if that failed. The
  /// daemon goes on then.
  virtual Error hand_over(message::SuccessionLink& successor, int32_t pid, const EstateVersions& versions) = 0;
};

/// "process 12". `pid` is 0 where a container's processes have ids of their own.
std::string process_text(int32_t pid);

/// Errors: EINVAL, naming the first fact that differs.
Result<void> check_same(const std::vector<message::DeviceFacts>& running,
                        const std::vector<message::DeviceFacts>& successors);

/// Whether a successor can serve the present clients. Errors: EPROTONOSUPPORT.
using ClientsCheck = std::function<Result<void>(const EstateVersions&)>;

/// There is one succession at a time.
class Succession {
 public:
  /// The turn of one successor.
  class Turn {
   public:
    Turn(Succession& of, int32_t pid, ClientsCheck check) : succession_(of), pid_(pid), check_(std::move(check)) {}
    ~Turn() { succession_.busy_.store(false, std::memory_order_release); }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    /// The conversation behind the reply to Op::take_over. Returns what it failed of, which the successor knows, too.
    Error run(message::Connection& connection);

   private:
    Result<EstateVersions> prepare(message::SuccessionLink& link);

    Succession& succession_;
    const int32_t pid_;
    const ClientsCheck check_;
  };

  /// `host` may be nullptr: a server that is not a daemon's.
  explicit Succession(std::shared_ptr<SuccessionHost> host) : host_(std::move(host)) {}
  /// Any thread.
  message::RestartRow row() const { return host_ != nullptr ? host_->restart_row() : message::RestartRow(); }
  /// Any thread. Errors: EBUSY (another successor has its turn), EOPNOTSUPP; those of check_same().
  Result<std::unique_ptr<Turn>> begin(const message::TakeOver& request, int32_t pid, ClientsCheck check);

 private:
  const std::shared_ptr<SuccessionHost> host_;
  std::atomic<bool> busy_{false};
  std::atomic<int32_t> pid_{0};  ///< of the latest successor
};

}  // namespace uroce::service
