// `uroce ping --answer`: sends back what it receives.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <uroce/daemon.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "net/address.h"
#include "ping/answerer.h"
#include "uroce/daemon_process.h"
#include "uroce/ping.h"
#include "uroce/terminal.h"

namespace uroce::cli {

namespace {

using namespace std::chrono_literals;

/// A device that has gone has none.
std::vector<Gid> addresses_of(const std::vector<Context>& devices) {
  std::vector<Gid> out;
  for (const Context& device : devices) {
    if (const auto gids = device.gids()) out.insert(out.end(), gids->begin(), gids->end());
  }
  return out;
}

std::string text_of(const std::vector<Gid>& addresses) {
  std::vector<std::string> out;
  for (const Gid& address : addresses) {
    if (address != Gid{}) out.push_back(net::to_text(address));
  }
  return fmt::format("{}", fmt::join(out, ", "));
}

}  // namespace

Result<void> run_ping_answer(const Options& options) {
  const DaemonOptions daemon{.socket = options.source.socket};
  auto manager = ConnectionManager::open(daemon);
  if (!manager) return std::unexpected(manager.error());
  const auto devices = daemon_devices(daemon);
  if (!devices) return std::unexpected(devices.error());
  std::vector<Context> contexts;
  for (const DeviceInfo& device : *devices) {
    auto context = open_daemon_device(device.name, daemon);
    if (!context) return std::unexpected(context.error());
    contexts.push_back(std::move(*context));
  }
  auto answerer = ping::Answerer::listen(
      std::move(*manager), [daemon](const std::string& device) { return open_daemon_device(device, daemon); },
      [&contexts] { return addresses_of(contexts); },
      {.peers = 64, .of_one_address = 64, .new_peers_per_second = 1e3, .messages_per_second = 1e6, .stay = 24h});
  if (!answerer && answerer.error().code == EADDRINUSE) {
    return fail(EADDRINUSE,
                fmt::format("cannot answer pings: the daemon or another program answers pings already "
                            "(daemon.answer_pings), and has port {} of {}; end that program, or leave it to the daemon",
                            ping::kPort, text_of(addresses_of(contexts))));
  }
  if (!answerer) return std::unexpected(answerer.error());
  fmt::print("answering pings at {}; ^C ends it\n", text_of((*answerer)->addresses()));
  std::fflush(stdout);
  Terminal terminal(Terminal::Use::lines);
  do {
    if (!(*answerer)->serve(-1, 50ms)) return std::unexpected(daemon_ended("the answers to pings"));
  } while (terminal.wait(0ms));
  return {};
}

}  // namespace uroce::cli
