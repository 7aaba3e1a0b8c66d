// Calls of a stack for the daemon, beyond the public API.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <uroce/cm.h>
#include <uroce/stack.h>

#include "cm/manager.h"
#include "control/device.h"
#include "message/belongings.h"
#include "message/operator_messages.h"
#include "message/succession_messages.h"
#include "pmd_glue/predecessor.h"
#include "pmd_glue/telemetry.h"
#include "service/capture.h"

namespace uroce::glue {

class StackAccess {
 public:
  // --- A planned restart ------------------------------------------------------------------------------------------

  /// As Stack::start(), for a successor: its ports use the sockets of the daemon before, and nothing is received or
  /// sent before awaken(). Engines answer calls meanwhile. Errors: those of Stack::start() and `ask`; EOPNOTSUPP (a
  /// port that is no interface of the kernel).
  static Result<Stack> start(const std::vector<std::string>& args, const StackOptions& options, AskPredecessor ask);
  /// The other daemon never uses its ports again.
  static void awaken(Stack& stack);
  /// Errors: EOPNOTSUPP (a port that is no interface of the kernel).
  static Result<std::vector<message::DeviceFacts>> facts(const Stack& stack);
  /// Descriptors for a successor. Any thread.
  static message::Belongings lend(const Stack& stack);
  /// Stops the engines' loops, so that nothing is received or sent. The thread that called start(), which polls no
  /// embedded stack meanwhile.
  static void freeze(Stack& stack);
  static void thaw(Stack& stack);
  /// After freeze(), where the process ends at once: ends EAL, and leaves everything else as it is.
  static void abandon(Stack& stack);

  // ----------------------------------------------------------------------------------------------------------------

  /// The devices, one for each port, in port order. Their engines end with the stack.
  static std::vector<std::shared_ptr<control::Device>> devices(const Stack& stack);
  /// The connection manager of all devices, which the first call starts. Any thread. Errors: those of
  /// cm::Manager::start().
  static Result<cm::Manager*> connections(Stack& stack);
  /// Connections by `manager`, which may be another than connections(), and which this may outlive. Any thread.
  static ConnectionManager connection_manager(const Stack& stack, cm::Manager& manager);
  /// The counters of engines, neighbourhood and port, by device name. Any thread.
  static std::vector<std::pair<std::string, CounterList>> counters(const Stack& stack);
  /// The same for one device, without those of its engines.
  static CounterList port_counters(const Stack& stack, std::string_view device);
  /// The rounds of each engine so far. An engine whose number stays the same for longer than kLongestNap (waker.h)
  /// stands still. Any thread.
  static std::vector<uint64_t> rounds(const Stack& stack);
  /// The work of each engine so far, over all devices, and how much waits for it. Any thread.
  static std::vector<message::EngineRow> engines(const Stack& stack);
  /// The drivers of the ports, in port order.
  static std::vector<std::string> drivers(const Stack& stack);
  /// Captures a device's frames. The capture must end before the stack. Any thread. Errors: ENODEV, and those of
  /// Capture::start().
  static Result<std::unique_ptr<service::Capture>> capture(const Stack& stack, std::string_view device);
  /// The fault rules, which end with the stack. Any thread.
  static std::shared_ptr<service::Faults> faults(const Stack& stack);
  /// Replaces addresses and gateways of a running stack's ports. The thread that runs an embedded stack; any thread
  /// otherwise. Errors: EINVAL (nothing has changed); ENOMEM, ETIMEDOUT.
  static Result<void> set_addresses(Stack& stack, const StackOptions& options);
  /// Lets the calling thread, and the threads that it starts afterwards, run on the CPUs that the process had before
  /// EAL pinned this thread, without those of engines if others are left. With an embedded stack that is all of them.
  static void leave_engines_cpus(const Stack& stack);
  /// Moves the calling thread to EAL's main lcore.
  static void return_to_main_lcore();
};

}  // namespace uroce::glue
