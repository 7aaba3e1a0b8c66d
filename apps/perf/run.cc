#include "perf/run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <span>

#include "perf/endpoint.h"
#include "perf/interrupt.h"
#include "perf/peer_channel.h"
#include "perf/pump.h"
#include "perf/table.h"
#include "perf/test_side.h"

namespace uroce::perf {
namespace {

using Sides = std::span<const std::unique_ptr<TestSide>>;

/// One endpoint of this process, and its channel to the peer.
struct Connection {
  std::unique_ptr<Endpoint> endpoint;
  std::unique_ptr<PeerChannel> channel;
};

Result<std::unique_ptr<Endpoint>> open_endpoint(Host& host, const std::string& device, const Options& options,
                                                bool client) {
  auto context = host.open(device);
  if (!context) return std::unexpected(context.error());
  auto endpoint = Endpoint::create(std::move(*context), options);
  if (!endpoint || !options.rdma_cm) return endpoint;
  auto manager = host.connections();
  if (!manager) return std::unexpected(manager.error());
  auto connector =
      client ? CmConnector::make(std::move(*manager)) : CmConnector::listen(std::move(*manager), (*endpoint)->gid());
  if (!connector) return std::unexpected(connector.error());
  (*endpoint)->use_rdma_cm(std::move(*connector));
  return endpoint;
}

Result<std::string> choose_device(const Host& host, const Options& options) {
  const std::vector<std::string>& names = host.devices();
  if (names.empty()) return fail(ENODEV, "there is no device; name a port with --vdev or -a, or use --daemon");
  if (options.device.empty()) return names.front();
  if (std::ranges::find(names, options.device) != names.end()) return options.device;
  return fail(ENODEV, fmt::format("unknown device {}; there {} {}", options.device, names.size() == 1 ? "is" : "are",
                                  fmt::join(names, ", ")));
}

Result<std::unique_ptr<PeerChannel>> open_channel(Endpoint& endpoint, const Options& options, Pump& pump,
                                                  Table& table) {
  const WaitStep step = [&] {
    pump.wait();
    return !interrupted();
  };
  if (options.is_client()) return connect_channel(options.host, options.port, options.connect_timeout_s, step);
  auto listener = Listener::open(options.port);
  if (!listener) return std::unexpected(listener.error());
  table.waiting();
  auto channel = listener->accept(options.connect_timeout_s, step);
  if (channel || endpoint.link_up()) return channel;
  return fail(channel.error().code, fmt::format("{} (the port of {}, {}, is down)", channel.error().text,
                                                endpoint.info().name, endpoint.info().driver));
}

/// Blocks until any side has a completion event, at most a millisecond.
void wait_for_event(std::span<Connection> connections, Pump& pump) {
  if (pump.embedded() && connections.size() == 1) {
    connections[0].endpoint->channel()->wait(std::chrono::milliseconds(1));
    return;
  }
  if (pump.embedded()) return pump.turn(false, false);
  std::array<pollfd, 2> fds{};
  for (std::size_t i = 0; i < connections.size(); ++i) fds[i] = {connections[i].endpoint->channel()->fd(), POLLIN, 0};
  ::poll(fds.data(), connections.size(), 1);
  for (Connection& connection : connections) {
    while (connection.endpoint->channel()->wait(std::chrono::nanoseconds(0))) {
    }
  }
}

/// Steps all sides until all have ended.
void drive(std::span<Connection> connections, Sides sides, Pump& pump, bool events) {
  for (bool armed = false;;) {
    bool running = false, progressed = false, resting = true;
    for (const auto& side : sides) {
      if (side->finished()) continue;
      running = true;
      progressed |= side->step() == Step::progress;
      resting &= side->resting();
    }
    if (!running) return;
    if (interrupted()) {
      for (const auto& side : sides) side->give_up("interrupted");
    }
    if (!events || progressed || resting) {
      armed = false;
      pump.turn(progressed, resting);
    } else if (!armed) {
      // Poll once more after arming: earlier completions raise no event.
      armed = std::ranges::all_of(sides, [](const auto& side) { return side->arm(); });
    } else {
      armed = false;
      wait_for_event(connections, pump);
    }
  }
}

/// The error of the side that failed first.
std::string first_problem(Sides sides) {
  std::string problem;
  for (const auto& side : sides) {
    if (side->failed() && (problem.empty() || !side->reported_by_peer())) problem = side->problem();
  }
  return problem;
}

Result<std::vector<Connection>> open_connections(Host& host, const Options& options, Pump& pump, Table& table) {
  std::vector<Connection> connections;
  if (!options.back_to_back) {
    const auto device = choose_device(host, options);
    if (!device) return std::unexpected(device.error());
    auto endpoint = open_endpoint(host, *device, options, options.is_client());
    if (!endpoint) return std::unexpected(endpoint.error());
    auto channel = open_channel(**endpoint, options, pump, table);
    if (!channel) return std::unexpected(channel.error());
    connections.push_back({std::move(*endpoint), std::move(*channel)});
    return connections;
  }
  const std::vector<std::string>& names = host.devices();
  if (names.size() < 2) return fail(ENODEV, "--back-to-back needs two devices; there are fewer");
  if (!options.device.empty()) {
    return fail(EINVAL, fmt::format("--back-to-back chooses its own two devices; leave -d {} out", options.device));
  }
  auto [client_end, server_end] = local_channels();
  for (auto* end : {&client_end, &server_end}) {
    // The two joined ports come after those of the EAL arguments.
    const std::string& name = names[names.size() - 2 + connections.size()];
    auto endpoint = open_endpoint(host, name, options, connections.empty());
    if (!endpoint) return std::unexpected(endpoint.error());
    connections.push_back({std::move(*endpoint), std::move(*end)});
  }
  return connections;
}

}  // namespace

Result<Outcome> run_test(Host& host, const Options& options) {
  const bool client = options.is_client() || options.back_to_back;
  Pump pump(host, options.stack.idle);
  Table table(options, client);
  auto connections = open_connections(host, options, pump, table);
  if (!connections) return std::unexpected(connections.error());
  std::vector<std::unique_ptr<TestSide>> sides;
  for (std::size_t i = 0; i < connections->size(); ++i) {
    Connection& connection = (*connections)[i];
    sides.push_back(std::make_unique<TestSide>(*connection.endpoint, *connection.channel, options, client && i == 0,
                                               i == 0 ? &table : nullptr));
  }
  drive(*connections, sides, pump, options.events);
  if (const std::string problem = first_problem(sides); !problem.empty()) return fail(EIO, problem);
  table.footer();
  const Endpoint& endpoint = *connections->front().endpoint;
  return Outcome{sides.front()->results(),
                 {endpoint.info(), endpoint.path_mtu(), endpoint.outs(), endpoint.gid_index(), host.embedded()}};
}

}  // namespace uroce::perf
