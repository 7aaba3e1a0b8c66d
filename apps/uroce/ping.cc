#include "uroce/ping.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include "message/cm_reject_reasons.h"
#include "net/address.h"
#include "ping/end.h"
#include "uroce/daemon_process.h"
#include "uroce/path_probe.h"
#include "uroce/round_trips.h"

namespace uroce::cli {

namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kPatience = 3s;           ///< for one answer
constexpr auto kEchoPatience = 1s;       ///< for that of a kernel to an echo
constexpr uint32_t kPacketHeaders = 84;  ///< the most around a payload: IPv6, UDP, BTH, RETH with immediate data, ICRC
constexpr uint64_t kEchoTries = 2;       ///< where none has come back
constexpr int kSizeTries = 5;            ///< of a size, while the peer is silent
constexpr uint64_t kPings = 5;           ///< by default
constexpr uint32_t kSmall = 64;          ///< bytes
constexpr auto kApart = 1ms;             ///< of two messages: a daemon makes those above 2,000 a second wait
constexpr uint16_t kClosedPort = 4790;   ///< the TCP port before that of RoCE; nobody should listen there

/// Waits for the id's next event; nothing when none comes in time.
std::optional<CmEvent> next_event(CmChannel& channel, const CmId& id) {
  const auto until = Clock::now() + kPatience;
  for (auto now = Clock::now(); now < until; now = Clock::now()) {
    const auto event = channel.wait(until - now);
    if (event && event->id == id.number()) return event;
  }
  return std::nullopt;
}

std::string refusal_text(const CmEvent& event) {
  if (event.type == CmEventType::unreachable) return "no answer to the request";
  if (event.status == static_cast<int>(message::RejReason::invalid_service_id)) return "it serves no such port";
  return fmt::format("refused with reason {}", event.status);
}

class Pinger {
 public:
  Pinger(const Options& options, Gid target, ConnectionManager manager, CmChannel channel)
      : options_(options), target_(target), manager_(std::move(manager)), channel_(std::move(channel)) {}

  Result<void> run() {
    const uint64_t count = options_.count == 0 ? kPings : options_.count;
    auto id = resolved(kClosedPort);
    if (!id) return std::unexpected(id.error());
    const auto path = id->info();
    if (!path) return std::unexpected(path.error());
    fmt::print("{} by device {}, largest packets {} bytes\n", options_.address, path->device, mtu_bytes(path->mtu));
    std::fflush(stdout);  // the rest may take a while
    // Pings are answered at devices' addresses, and a loopback address is none.
    if (net::is_loopback(target_)) {
      target_ = path->dgid;
      source_ = CmAddress{.ip = path->sgid};
    }
    auto context = open_daemon_device(path->device, {.socket = options_.source.socket});
    if (!context) return std::unexpected(context.error());
    auto end = ping::End::open(std::move(*context));
    if (!end) return std::unexpected(end.error());
    if (auto answered = ping_manager((*end)->qpn(), count); !answered) return answered;
    return ping_queue_pair(**end, count, *path);
  }

 private:
  /// For a step whose event did not come, or another in its place.
  Error no_answer(const char* step, const std::optional<CmEvent>& event = std::nullopt) const {
    if (event && event->type == CmEventType::device_removal) return daemon_ended("the ping");
    if (event && event->status == -EACCES) {
      return {EACCES,
              fmt::format("{}: the device's list of peers (device.allow) is without it; add it there, and start "
                          "the daemon again",
                          options_.address)};
    }
    return {EHOSTUNREACH,
            fmt::format("{}: {}: no answer within {} s; look whether the peer's RoCE device is up and its "
                        "network lets UDP port 4791 through (`uroce doctor` looks at this side)",
                        options_.address, step, kPatience.count())};
  }

  /// An id with a route to a port of the target.
  Result<CmId> resolved(uint16_t port) {
    auto id = manager_.create_id(channel_, PortSpace::tcp, QpType::rc);
    if (!id) return id;
    const auto limit = std::chrono::duration_cast<std::chrono::milliseconds>(kPatience);
    if (auto ok = id->resolve_addr(source_, {.ip = target_, .port = port}, limit); !ok)
      return std::unexpected(ok.error());
    const auto address = next_event(channel_, *id);
    if (!address || address->type != CmEventType::addr_resolved)
      return std::unexpected(no_answer("its Ethernet address", address));
    if (auto ok = id->resolve_route(limit); !ok) return std::unexpected(ok.error());
    const auto route = next_event(channel_, *id);
    if (!route || route->type != CmEventType::route_resolved) return std::unexpected(no_answer("a route to it", route));
    return id;
  }

  /// Asks the peer's connection manager for a port that nobody serves. The time until it refuses; nullopt: it does not
  /// answer.
  Result<std::optional<std::chrono::nanoseconds>> ask_manager(uint32_t qpn) {
    auto id = resolved(kClosedPort);
    if (!id) return std::unexpected(id.error());
    const auto began = Clock::now();
    if (auto ok = id->connect({.qpn = qpn}); !ok) return std::unexpected(ok.error());
    const auto event = next_event(channel_, *id);
    if (!event || event->type == CmEventType::unreachable) return std::nullopt;
    if (event->type == CmEventType::device_removal) return std::unexpected(daemon_ended("the ping"));
    return Clock::now() - began;
  }

  /// One datagram to the peer's queue pair 1, and one back. Every RoCE device answers so.
  Result<void> ping_manager(uint32_t qpn, uint64_t count) {
    RoundTrips trips;
    // Where nobody answers, more than the usual number of pings would only take long.
    for (uint64_t i = 0; i < count && (trips.answered() > 0 || i < kPings); ++i) {
      const auto time = ask_manager(qpn);
      if (!time) return std::unexpected(time.error());
      if (*time) {
        trips.add(**time);
      } else {
        trips.lose();
      }
    }
    fmt::print("UD, connection manager: {}\n", trips.text());
    if (trips.answered() == 0) return std::unexpected(no_answer("its connection manager"));
    return {};
  }

  /// Round trips of messages, where the peer's daemon or `uroce ping --answer` answers.
  Result<void> ping_queue_pair(ping::End& end, uint64_t count, const CmIdInfo& path) {
    auto id = resolved(ping::kPort);
    if (!id) return std::unexpected(id.error());
    if (auto ok = id->connect({.qpn = end.qpn()}); !ok) return ok;
    const auto event = next_event(channel_, *id);
    if (event && event->type == CmEventType::device_removal) return std::unexpected(daemon_ended("the ping"));
    if (!event || event->type != CmEventType::connect_response) return ping_kernel(end.qpn(), count, path, event);
    if (auto ok = end.connect_by(*id); !ok) return ok;
    if (auto ok = id->establish(); !ok) return ok;
    for (const uint32_t bytes : {kSmall, std::min(mtu_bytes(path.mtu), ping::End::kBufferBytes)}) {
      const auto trips = exchange(end, count, bytes);
      if (trips.lost() > 0 && daemon_is_gone()) return std::unexpected(daemon_ended("the ping"));
      fmt::print("RC, {} bytes: {}\n", bytes, trips.text());
      if (trips.answered() == 0) {
        return fail(
            EHOSTUNREACH,
            fmt::format("messages of {} bytes do not come back{}", bytes,
                        bytes > kSmall ? ", and small ones do: raise the MTU of what lies between, or lower that "
                                         "of this device (device.mtu)"
                                       : "; look for a firewall"));
      }
    }
    say_recovery(end.qpn(), path.device);
    static_cast<void>(id->disconnect());
    return {};
  }

  /// Where nobody answers messages, as on Linux's rxe and on cards: the peer's kernel may answer echoes of IP, which
  /// pass the same network.
  Result<void> ping_kernel(uint32_t qpn, uint64_t count, const CmIdInfo& path, const std::optional<CmEvent>& event) {
    fmt::print(
        "RC: nobody answers ({}); where the peer's uroced answers no pings (daemon.answer_pings), start `uroce ping "
        "--answer` there to measure messages and packet sizes\n",
        event ? refusal_text(*event) : "no answer to the request");
    const auto measured = ping_mtu(qpn, count, path);
    fmt::print("loss recovery: go-back-n with this peer, unless it is a uroce that answers no pings\n");
    return measured;
  }

  Result<void> ping_mtu(uint32_t qpn, uint64_t count, const CmIdInfo& path) {
    const uint32_t mtu = mtu_bytes(path.mtu);
    auto context = open_daemon_device(path.device, {.socket = options_.source.socket});
    if (!context) return std::unexpected(context.error());
    const auto probe = PathProbe::open(std::move(*context));
    if (!probe) {
      const bool rights = probe.error().code == EPERM;
      fmt::print("path MTU: unknown; {}\n",
                 rights ? "only root and the daemon's user may send echoes of IP over the device and see their answers"
                        : probe.error().text);
      return {};
    }
    if (auto asked = ask_manager(qpn); !asked) return std::unexpected(asked.error());
    const bool answers =
        (*probe)->learn_route(path.sgid, target_, kEchoPatience) && echoes(**probe, kEchoTries, kSmall).answered() > 0;
    if (!answers) {
      fmt::print("path MTU: unknown; the peer's kernel answered no ICMP echo\n");
      return {};
    }
    const auto trips = echoes_of_size(**probe, count, mtu);
    fmt::print("path MTU {}, by echoes of IP as long as such packets: {}\n", mtu, trips.text());
    if (trips.answered() > 0) return {};
    std::fflush(stdout);  // the rest may take a while
    uint32_t less = mtu / 2;
    while (less >= mtu_bytes(Mtu::mtu256) && echoes_of_size(**probe, kEchoTries, less).answered() == 0) less /= 2;
    return fail(EHOSTUNREACH,
                fmt::format("echoes as long as packets of {} bytes do not come back, and {} do: raise the "
                            "MTU of the peer or of what lies between, or lower that of this device "
                            "(device.mtu)",
                            mtu, less < mtu_bytes(Mtu::mtu256) ? "small ones" : fmt::format("ones of {}", less)));
  }

  static RoundTrips echoes(PathProbe& probe, uint64_t count, uint32_t payload) {
    RoundTrips trips;
    for (uint64_t i = 0; i < count && (trips.answered() > 0 || i < kEchoTries); ++i) {
      if (const auto time = probe.echo(payload + kPacketHeaders, kEchoPatience)) {
        trips.add(*time);
      } else {
        trips.lose();
      }
    }
    return trips;
  }

  /// Where none comes back, a small echo tells whether the size is the reason. A peer that is silent is asked again.
  static RoundTrips echoes_of_size(PathProbe& probe, uint64_t count, uint32_t payload) {
    RoundTrips trips;
    for (int i = 0; i < kSizeTries; ++i) {
      trips = echoes(probe, count, payload);
      if (trips.answered() > 0 || echoes(probe, 1, kSmall).answered() > 0) break;
    }
    return trips;
  }

  static RoundTrips exchange(ping::End& end, uint64_t count, uint32_t bytes) {
    RoundTrips trips;
    Clock::time_point began{};
    for (uint64_t i = 0; i < count; ++i) {
      std::this_thread::sleep_until(began + kApart);
      began = Clock::now();
      if (!end.send(0, bytes) || !wait_for_echo(end, began)) {
        trips.lose();
        break;  // the queue pair is in error
      }
      trips.add(Clock::now() - began);
    }
    return trips;
  }

  /// Both the send's completion and the echo's.
  static bool wait_for_echo(ping::End& end, Clock::time_point began) {
    bool sent = false, echoed = false;
    while (!sent || !echoed) {
      Completion completion;
      if (!end.poll(completion)) {
        if (Clock::now() - began > kPatience) return false;
        continue;
      }
      if (completion.status != WcStatus::success) return false;
      const bool receive = completion.opcode == WcOpcode::recv;
      if (receive && !end.receive(static_cast<uint32_t>(completion.wr_id))) return false;
      (receive ? echoed : sent) = true;
    }
    return true;
  }

  /// Each id then has an event that says so.
  bool daemon_is_gone() {
    while (const auto event = channel_.take()) {
      if (event->type == CmEventType::device_removal) return true;
    }
    return false;
  }

  void say_recovery(uint32_t qpn, const std::string& device) const {
    const auto rows =
        fetch_objects({.socket = options_.source.socket, .device = device, .own = true}, message::Kind::qp);
    if (!rows) return;
    for (const ObjectRow& row : *rows) {
      std::string number, recovery;
      for (const auto& [name, value] : row.values) {
        if (name == "qpn") number = value;
        if (name == "recovery") recovery = value;
      }
      if (std::strtoul(number.c_str(), nullptr, 0) != qpn) continue;
      fmt::print("loss recovery: {}{}\n", recovery,
                 recovery == "selective"
                     ? ", because the peer is uroce"
                     : "; the peer answered no HELLO: it is not uroce, or one of the two sides is set to go-back-n "
                       "(device.retransmission)");
    }
  }

  const Options& options_;
  Gid target_;
  std::optional<CmAddress> source_;  // of a ping of the device by itself
  ConnectionManager manager_;
  CmChannel channel_;
};

}  // namespace

Result<void> run_ping(const Options& options) {
  const auto target = net::parse_address(options.address);
  if (!target) return std::unexpected(target.error());
  auto manager = ConnectionManager::open({.socket = options.source.socket});
  if (!manager) return std::unexpected(manager.error());
  auto channel = manager->create_channel();
  if (!channel) return std::unexpected(channel.error());
  return Pinger(options, *target, std::move(*manager), std::move(*channel)).run();
}

}  // namespace uroce::cli
