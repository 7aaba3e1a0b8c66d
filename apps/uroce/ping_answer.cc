// `uroce ping --answer`: sends back what it receives.
#include <fmt/format.h>
#include <uroce/daemon.h>

#include <cerrno>
#include <chrono>
#include <cstdio>

#include "ping/answerer.h"
#include "uroce/daemon_process.h"
#include "uroce/ping.h"
#include "uroce/terminal.h"

namespace uroce::cli {

using namespace std::chrono_literals;

Result<void> run_ping_answer(const Options& options) {
  const DaemonOptions daemon{.socket = options.source.socket};
  auto manager = ConnectionManager::open(daemon);
  if (!manager) return std::unexpected(manager.error());
  auto answerer = ping::Answerer::listen(
      std::move(*manager), [daemon](const std::string& device) { return open_daemon_device(device, daemon); },
      {.peers = 64, .of_one_address = 64, .new_peers_per_second = 1e3, .messages_per_second = 1e6, .stay = 24h});
  if (!answerer && answerer.error().code == EADDRINUSE) {
    return fail(EADDRINUSE, "the daemon or another program answers pings already (daemon.answer_pings)");
  }
  if (!answerer) return std::unexpected(answerer.error());
  fmt::print("answering pings; ^C ends it\n");
  std::fflush(stdout);
  Terminal terminal(Terminal::Use::lines);
  do {
    if (!(*answerer)->serve(-1, 50ms)) return std::unexpected(daemon_ended("the answers to pings"));
  } while (terminal.wait(0ms));
  return {};
}

}  // namespace uroce::cli
