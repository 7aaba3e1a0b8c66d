// The thread that answers pings (lib/ping) on the daemon's devices, with no program's help.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <thread>

#include <uroce/error.h>
#include <uroce/stack.h>

#include "cm/manager.h"
#include "ping/answerer.h"

namespace uroce::daemon {

class PingAnswers {
 public:
  /// On the named devices, at all of their addresses. The ports of others stay free. `stack` and `manager` outlive
  /// this. Errors: those of ping::Answerer::listen(); of eventfd(2).
  static Result<std::unique_ptr<PingAnswers>> start(Stack& stack, cm::Manager& manager, std::set<std::string> devices);
  /// Peers are disconnected. The engines must still run.
  ~PingAnswers();
  PingAnswers(const PingAnswers&) = delete;
  PingAnswers& operator=(const PingAnswers&) = delete;

 private:
  PingAnswers(std::unique_ptr<ping::Answerer> answerer, int stop);

  std::unique_ptr<ping::Answerer> answerer_;
  const int stop_;
  std::thread thread_;
};

}  // namespace uroce::daemon
