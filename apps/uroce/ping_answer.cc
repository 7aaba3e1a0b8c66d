// `uroce ping --answer`: sends back what it receives.
#include <fmt/format.h>

#include <cstdio>
#include <map>
#include <utility>

#include "uroce/ping.h"
#include "uroce/ping_end.h"
#include "uroce/terminal.h"

namespace uroce::cli {

namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostPeers = 64;
constexpr auto kAwake = 100ms;  ///< it polls without a pause for so long after a message

struct Peer {
  CmId id;
  std::unique_ptr<PingEnd> end;
};

class Answerer {
 public:
  Answerer(const Options& options, ConnectionManager manager, CmChannel channel)
      : options_(options), manager_(std::move(manager)), channel_(std::move(channel)) {}

  Result<void> run() {
    auto listener = manager_.create_id(channel_, PortSpace::tcp, QpType::rc);
    if (!listener) return std::unexpected(listener.error());
    if (auto ok = listener->bind({.ip = {}, .port = kPingPort}); !ok) return ok;
    if (auto ok = listener->listen(16); !ok) return ok;
    fmt::print("answering pings; ^C ends it\n");
    std::fflush(stdout);
    Terminal terminal(Terminal::Use::lines);
    auto last = Clock::now() - kAwake;
    for (;;) {
      while (auto event = channel_.take()) handle(*event);
      if (echo_all()) last = Clock::now();
      if (!terminal.wait(Clock::now() - last < kAwake ? 0ms : 2ms)) return {};
    }
  }

 private:
  void handle(const CmEvent& event) {
    if (event.type == CmEventType::connect_request) {
      auto id = manager_.adopt(event);
      if (id) welcome(std::move(*id));
      return;
    }
    if (event.type != CmEventType::established) peers_.erase(event.id);
  }

  /// A request that cannot be served is rejected: destroying its id does that.
  void welcome(CmId id) {
    if (peers_.size() >= kMostPeers) return;
    const auto info = id.info();
    if (!info) return;
    auto end = PingEnd::open(info->device, {.socket = options_.source.socket});
    if (!end || !(*end)->connect_by(id)) return;
    if (!id.accept({.qpn = (*end)->qpn()})) return;
    const uint32_t number = id.number();
    peers_.emplace(number, Peer{std::move(id), std::move(*end)});
  }

  bool echo_all() {
    bool any = false;
    for (auto& [number, peer] : peers_) {
      Completion completion;
      while (peer.end->poll(completion)) {
        any = true;
        // The end of the connection is an event, too.
        if (completion.status != WcStatus::success) continue;
        const auto buffer = static_cast<uint32_t>(completion.wr_id);
        if (completion.opcode == WcOpcode::recv) {
          peer.end->send(buffer, completion.byte_len);
        } else {
          peer.end->receive(buffer);
        }
      }
    }
    return any;
  }

  const Options& options_;
  ConnectionManager manager_;
  CmChannel channel_;
  std::map<uint32_t, Peer> peers_;  ///< by the id's number
};

}  // namespace

Result<void> run_ping_answer(const Options& options) {
  auto manager = ConnectionManager::open({.socket = options.source.socket});
  if (!manager) return std::unexpected(manager.error());
  auto channel = manager->create_channel();
  if (!channel) return std::unexpected(channel.error());
  return Answerer(options, std::move(*manager), std::move(*channel)).run();
}

}  // namespace uroce::cli
