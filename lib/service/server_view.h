// The part of the server that a client's operations use.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cm/manager.h"
#include "control/device.h"
#include "message/operator_messages.h"
#include "service/capture.h"
#include "service/gate.h"
#include "service/history.h"
#include "service/peer.h"
#include "service/sight.h"
#include "service/succession.h"

namespace uroce::service {

enum class Severity { debug, info, warning, error };

/// Counters by device and name. They do not change while anything is served.
using EarlierCounters = std::map<std::string, std::map<std::string, uint64_t>>;

class ServerView {
 public:
  virtual ~ServerView() = default;
  virtual const std::vector<std::shared_ptr<control::Device>>& devices() const = 0;
  /// nullptr where there is none.
  virtual cm::Manager* connections() const = 0;
  virtual const PortAccess& ports() const = 0;
  virtual const DaemonRights& rights() const = 0;
  /// The counts of the daemons before.
  virtual const EarlierCounters& earlier_counters() const = 0;
  virtual Gate& gate() = 0;
  /// A line that a client of user `uid` causes: a user has a bounded number of them.
  virtual void log_of_client(uint32_t uid, Severity severity, std::string_view text) = 0;
  /// A line that no flood of other lines keeps out. A client must not be able to cause many.
  virtual void log_always(Severity severity, std::string_view text) = 0;
  virtual History& history() = 0;
  // Without what `sight` does not allow.
  virtual message::ClientRows client_rows(uint32_t after, const Sight& sight) const = 0;
  virtual message::UserRows user_rows(uint64_t after, const Sight& sight) const = 0;
  virtual message::ObjectRows object_rows(const message::ListObjects& request, const Sight& sight) const = 0;
  /// For a device that a program opens beside its first.
  virtual uint32_t new_client_id() = 0;
  /// A client's thread is about to end.
  virtual void finished() = 0;
  /// Waits for programs that have ended, or closed their connections, until nothing is left of them; at most 1 s. False
  /// where there was none. A client's thread may call it.
  virtual bool await_departing() = 0;
  virtual message::RestartRow restart_row() const = 0;
  /// See Succession::begin().
  virtual Result<std::unique_ptr<Succession::Turn>> begin_succession(const message::TakeOver& request, int32_t pid) = 0;
};

}  // namespace uroce::service
