// What a client's thread asks of the server that accepted it.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "cm/manager.h"
#include "control/device.h"
#include "message/messages.h"
#include "service/capture.h"

namespace uroce::service {

/// What one client may hold at once; beyond it a call fails with ENOMEM and names the limit.
struct ClientLimits {
  uint32_t max_qp = 16384;
  uint32_t max_cq = 16384;
  uint32_t max_srq = 1024;
  uint32_t max_mr = 65536;
  uint32_t max_pd = 4096;
  uint32_t max_ah = 65536;
  uint32_t max_cm_id = 65536;
  uint64_t max_queue_bytes = uint64_t{4} << 30;       ///< memory of all queues
  uint64_t max_registered_bytes = uint64_t{1} << 40;  ///< registered memory, mapped by the daemon
};

enum class Severity { info, warning, error };

class ServerView {
 public:
  virtual ~ServerView() = default;
  virtual const std::vector<std::shared_ptr<control::Device>>& devices() const = 0;
  /// nullptr where there is none.
  virtual cm::Manager* connections() const = 0;
  virtual const PortAccess& ports() const = 0;
  virtual void log(Severity severity, std::string_view text) const = 0;
  virtual message::ClientRows client_rows(uint32_t after) const = 0;
  virtual message::ObjectRows object_rows(const message::ListObjects& request) const = 0;
  /// A client's thread is about to end.
  virtual void finished() = 0;
};

}  // namespace uroce::service
