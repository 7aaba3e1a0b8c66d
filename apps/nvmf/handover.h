// The messages between the first reactor, which has the connections, and the reactor of a queue. A queue is known by
// the number of its CmId.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>

#include <uroce/verbs.h>

#include "nvmf/mailbox.h"
#include "nvmf/queue.h"

namespace uroce::nvmf {

/// Make a queue with its queue pair in RTS. The answer is Opened or Failed.
struct Open {
  uint32_t number = 0;
  std::string device{};
  Queue::Terms terms{};
  std::array<std::pair<QpAttr, QpAttrMask>, 3> steps{};  ///< to INIT, RTR and RTS
};
/// End the queue. Once its backend has, Ended follows. No effect on a queue that has ended.
struct Close {
  uint32_t number = 0;
  bool unless_connected = false;  ///< no effect either once its host has sent Connect
};
using Order = std::variant<Open, Close>;

struct Opened {
  uint32_t number = 0;
  uint32_t qpn = 0;
};
struct Failed {
  uint32_t number = 0;
};
/// Its host has sent Connect.
struct Connected {
  uint32_t number = 0;
  bool listed = false;  ///< a `hosts` list names the host
};
/// The queue is gone: after Close, by its own decision or its host's.
struct Ended {
  uint32_t number = 0;
};
using Report = std::variant<Opened, Failed, Connected, Ended>;

/// For each queue one Open, and two Closes at most.
using Orders = Mailbox<Order>;
/// Each queue has three at most.
using Reports = Mailbox<Report>;

}  // namespace uroce::nvmf
