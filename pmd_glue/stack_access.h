// What the daemon needs of a stack beyond the public API.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <uroce/stack.h>

#include "control/device.h"
#include "pmd_glue/telemetry.h"
#include "service/capture.h"

namespace uroce::glue {

class StackAccess {
 public:
  /// One per port, in port order. Their engines end with the stack.
  static std::vector<std::shared_ptr<control::Device>> devices(const Stack& stack);
  /// Per device name, the counters of its engines, its neighbourhood and its port. Any thread.
  static std::vector<std::pair<std::string, CounterList>> counters(const Stack& stack);
  /// As counters(), of one device and without its engines'.
  static CounterList port_counters(const Stack& stack, std::string_view device);
  /// Starts to capture a device's frames; ends before the stack does. Any thread. Errors: ENODEV, and those of
  /// Capture::start().
  static Result<std::unique_ptr<service::Capture>> capture(const Stack& stack, std::string_view device);
  /// Other addresses and gateways for the ports of a running stack. The thread that runs an embedded stack, or any
  /// other. Errors: EINVAL, and then nothing has changed; ENOMEM, ETIMEDOUT.
  static Result<void> set_addresses(Stack& stack, const StackOptions& options);
  /// The calling thread, and those that it starts from now on, run where the process could before EAL pinned this
  /// thread, but not where an engine runs as long as another CPU is left. For an embedded stack that is everywhere.
  static void leave_engines_cpus(const Stack& stack);
  /// The calling thread runs where EAL wants its main lcore.
  static void return_to_main_lcore();
};

}  // namespace uroce::glue
