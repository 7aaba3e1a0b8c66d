#include "perf/run.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <span>

#include "perf/channel.h"
#include "perf/endpoint.h"
#include "perf/interrupt.h"
#include "perf/pump.h"
#include "perf/session.h"
#include "perf/table.h"

namespace uroce::perf {
namespace {

using Sessions = std::span<const std::unique_ptr<Session>>;

/// A side that is all there but the peer.
struct Side {
  std::unique_ptr<Endpoint> endpoint;
  std::unique_ptr<Channel> channel;
};

Result<std::unique_ptr<Endpoint>> open_endpoint(Host& host, const std::string& device, const Options& options) {
  auto context = host.open(device);
  if (!context) return std::unexpected(context.error());
  return Endpoint::create(std::move(*context), options);
}

Result<std::string> choose_device(const Host& host, const Options& options) {
  const std::vector<std::string>& names = host.devices();
  if (names.empty()) return fail(ENODEV, "there is no device");
  if (options.device.empty()) return names.front();
  if (std::ranges::find(names, options.device) != names.end()) return options.device;
  return fail(ENODEV, fmt::format("there is no device {}; there {} {}", options.device,
                                  names.size() == 1 ? "is" : "are", fmt::join(names, ", ")));
}

Result<std::unique_ptr<Channel>> open_channel(Endpoint& endpoint, const Options& options, Pump& pump, Table& table) {
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

/// Blocks until a completion event of any session, a millisecond at most.
void wait_for_event(std::span<Side> sides, Pump& pump) {
  if (pump.embedded() && sides.size() == 1) {
    sides[0].endpoint->channel()->wait(std::chrono::milliseconds(1));
    return;
  }
  if (pump.embedded()) return pump.turn(false, false);
  std::array<pollfd, 2> fds{};
  for (std::size_t i = 0; i < sides.size(); ++i) fds[i] = {sides[i].endpoint->channel()->fd(), POLLIN, 0};
  ::poll(fds.data(), sides.size(), 1);
  for (Side& side : sides) {
    while (side.endpoint->channel()->wait(std::chrono::nanoseconds(0))) {
    }
  }
}

/// Steps all sessions until all have ended.
void drive(std::span<Side> sides, Sessions sessions, Pump& pump, bool events) {
  for (bool armed = false;;) {
    bool running = false, progressed = false, resting = true;
    for (const auto& session : sessions) {
      if (session->finished()) continue;
      running = true;
      progressed |= session->step() == Step::progress;
      resting &= session->resting();
    }
    if (!running) return;
    if (interrupted()) {
      for (const auto& session : sessions) session->give_up("interrupted");
    }
    if (!events || progressed || resting) {
      armed = false;
      pump.turn(progressed, resting);
    } else if (!armed) {
      // One more look after arming: what came before raises no event.
      armed = std::ranges::all_of(sessions, [](const auto& session) { return session->arm(); });
    } else {
      armed = false;
      wait_for_event(sides, pump);
    }
  }
}

/// The sentence of the side that failed first.
std::string first_problem(Sessions sessions) {
  std::string problem;
  for (const auto& session : sessions) {
    if (session->failed() && (problem.empty() || !session->told_by_peer())) problem = session->problem();
  }
  return problem;
}

Result<std::vector<Side>> open_sides(Host& host, const Options& options, Pump& pump, Table& table) {
  std::vector<Side> sides;
  if (!options.back_to_back) {
    const auto device = choose_device(host, options);
    if (!device) return std::unexpected(device.error());
    auto endpoint = open_endpoint(host, *device, options);
    if (!endpoint) return std::unexpected(endpoint.error());
    auto channel = open_channel(**endpoint, options, pump, table);
    if (!channel) return std::unexpected(channel.error());
    sides.push_back({std::move(*endpoint), std::move(*channel)});
    return sides;
  }
  const std::vector<std::string>& names = host.devices();
  if (names.size() < 2) return fail(ENODEV, "--back-to-back needs two devices, and there are not so many");
  if (!options.device.empty()) {
    return fail(EINVAL, fmt::format("--back-to-back chooses its two devices itself; leave -d {} out", options.device));
  }
  auto [client_end, server_end] = local_channels();
  for (auto* end : {&client_end, &server_end}) {
    // The joined ports come after those of the EAL arguments.
    const std::string& name = names[names.size() - 2 + sides.size()];
    auto endpoint = open_endpoint(host, name, options);
    if (!endpoint) return std::unexpected(endpoint.error());
    sides.push_back({std::move(*endpoint), std::move(*end)});
  }
  return sides;
}

}  // namespace

Result<Outcome> run_test(Host& host, const Options& options) {
  const bool client = options.is_client() || options.back_to_back;
  Pump pump(host, options.stack.idle);
  Table table(options, client);
  auto sides = open_sides(host, options, pump, table);
  if (!sides) return std::unexpected(sides.error());
  std::vector<std::unique_ptr<Session>> sessions;
  for (std::size_t i = 0; i < sides->size(); ++i) {
    Side& side = (*sides)[i];
    sessions.push_back(
        std::make_unique<Session>(*side.endpoint, *side.channel, options, client && i == 0, i == 0 ? &table : nullptr));
  }
  drive(*sides, sessions, pump, options.events);
  if (const std::string problem = first_problem(sessions); !problem.empty()) return fail(EIO, problem);
  table.footer();
  const Endpoint& endpoint = *sides->front().endpoint;
  return Outcome{sessions.front()->results(),
                 {endpoint.info(), endpoint.path_mtu(), endpoint.outs(), endpoint.gid_index(), host.embedded()}};
}

}  // namespace uroce::perf
