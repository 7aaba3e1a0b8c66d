#include "ping/answerer.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <poll.h>

namespace uroce::ping {
namespace {

using namespace std::chrono_literals;

constexpr int kBacklog = 16;
constexpr int kTurn = 4 * End::kBuffers;  ///< completions of one peer before the next one's
/// While a peer is connected: how often its time is looked at, and how long a rate that is used up waits.
constexpr auto kLook = 250ms, kPause = 5ms;
constexpr auto kFollow = 1000ms;  ///< between looks at the addresses

}  // namespace

Result<std::unique_ptr<Answerer>> Answerer::listen(ConnectionManager manager, Open open, Addresses addresses,
                                                   const AnswerLimits& limits) {
  auto channel = manager.create_channel();
  if (!channel) return std::unexpected(channel.error());
  auto life = manager.create_id(*channel, PortSpace::tcp, QpType::rc);
  if (!life) return std::unexpected(life.error());
  std::unique_ptr<Answerer> answerer(new Answerer(std::move(manager), std::move(*channel), std::move(*life),
                                                  std::move(open), std::move(addresses), limits));
  if (auto ok = answerer->follow(); !ok && answerer->listeners_.empty()) return std::unexpected(ok.error());
  return answerer;
}

Answerer::Answerer(ConnectionManager manager, CmChannel channel, CmId life, Open open, Addresses addresses,
                   const AnswerLimits& limits)
    : manager_(std::move(manager)),
      channel_(std::move(channel)),
      life_(std::move(life)),
      open_(std::move(open)),
      wanted_(std::move(addresses)),
      limits_(limits) {}

std::vector<Gid> Answerer::addresses() const {
  std::vector<Gid> out;
  for (const auto& [address, listener] : listeners_) out.push_back(address);
  return out;
}

Result<void> Answerer::follow() {
  next_follow_ = Clock::now() + kFollow;
  const std::vector<Gid> wanted = wanted_();
  std::erase_if(listeners_, [&](const auto& one) { return std::ranges::find(wanted, one.first) == wanted.end(); });
  Result<void> result;
  for (const Gid& address : wanted) {
    if (address == Gid{} || listeners_.contains(address)) continue;
    if (auto listener = listen_at(address)) {
      listeners_.emplace(address, std::move(*listener));
    } else {
      result = std::unexpected(listener.error());
    }
  }
  return result;
}

Result<CmId> Answerer::listen_at(const Gid& address) {
  auto listener = manager_.create_id(channel_, PortSpace::tcp, QpType::rc);
  if (!listener) return listener;
  if (auto ok = listener->bind({.ip = address, .port = kPort}); !ok) return std::unexpected(ok.error());
  if (auto ok = listener->listen(kBacklog); !ok) return std::unexpected(ok.error());
  return listener;
}

bool Answerer::serve(int stop, std::chrono::milliseconds most) {
  const auto now = Clock::now();
  while (const auto event = channel_.take()) {
    if (!handle(*event, now)) return false;
  }
  if (now >= next_follow_) static_cast<void>(follow());
  bool paused = false, more = false;
  std::vector<pollfd> waiting{{.fd = stop, .events = POLLIN, .revents = 0},
                              {.fd = channel_.fd(), .events = POLLIN, .revents = 0}};
  for (auto& [number, peer] : peers_) {
    const Echoed echoed = echo(peer, now);
    paused |= echoed == Echoed::paused;
    more |= echoed == Echoed::some;
    waiting.push_back({.fd = peer.end->fd(), .events = POLLIN, .revents = 0});
  }
  end_old_ones(now);
  std::chrono::milliseconds look = kFollow;
  if (!peers_.empty()) look = paused ? kPause : kLook;
  if (more) look = 0ms;
  most = most < 0ms ? look : std::min(most, look);
  // A paused peer's descriptor may be readable: only the others wake then.
  const nfds_t count = paused ? 2 : waiting.size();
  poll(waiting.data(), count, static_cast<int>(most.count()));
  return waiting[0].revents == 0;
}

bool Answerer::handle(const CmEvent& event, Clock::time_point now) {
  if (event.type == CmEventType::device_removal) return false;
  if (event.type == CmEventType::connect_request) {
    if (auto id = manager_.adopt(event)) welcome(std::move(*id), now);
    return true;
  }
  const auto peer = peers_.find(event.id);
  if (peer == peers_.end()) return true;
  if (event.type == CmEventType::established) {
    peer->second.connected = true;
  } else {
    peers_.erase(peer);
  }
  return true;
}

void Answerer::welcome(CmId id, Clock::time_point now) {
  const auto info = id.info();
  if (!info || !has_room(info->device, info->dgid) || !rates_of(info->device, now).peers.take(now)) return;
  auto context = open_(info->device);
  if (!context) return;
  auto end = End::open(std::move(*context));
  if (!end || !(*end)->connect_by(id)) return;
  if (!id.accept({.qpn = (*end)->qpn()})) return;
  (*end)->arm();
  const uint32_t number = id.number();
  peers_.emplace(number, Peer{.id = std::move(id),
                              .end = std::move(*end),
                              .device = info->device,
                              .address = info->dgid,
                              .since = now,
                              .last = now});
}

bool Answerer::has_room(const std::string& device, const Gid& address) const {
  std::size_t here = 0, same = 0;
  for (const auto& [number, peer] : peers_) {
    if (peer.device != device) continue;
    ++here;
    same += peer.address == address ? 1 : 0;
  }
  return here < limits_.peers && same < limits_.of_one_address;
}

Answerer::Rates& Answerer::rates_of(const std::string& device, Clock::time_point now) {
  const Rates fresh{.peers = Bucket(limits_.new_peers_per_second, now),
                    .messages = Bucket(limits_.messages_per_second, now)};
  return rates_.try_emplace(device, fresh).first->second;
}

Answerer::Echoed Answerer::echo(Peer& peer, Clock::time_point now) {
  Bucket& messages = rates_of(peer.device, now).messages;
  // Once more after arming: a completion that came before it raises no event.
  bool armed = false;
  for (int left = kTurn; left > 0; --left) {
    if (!messages.has(now)) return Echoed::paused;
    Completion completion;
    if (!peer.end->poll(completion)) {
      if (armed) return Echoed::all;
      peer.end->arm();
      armed = true;
      continue;
    }
    // The end of the connection is an event, too.
    if (completion.status != WcStatus::success) continue;
    const auto buffer = static_cast<uint32_t>(completion.wr_id);
    if (completion.opcode == WcOpcode::send) {
      peer.end->receive(buffer);
    } else {
      messages.take(now);
      peer.last = now;
      peer.end->send(buffer, completion.byte_len);
    }
  }
  return Echoed::some;
}

void Answerer::end_old_ones(Clock::time_point now) {
  std::erase_if(peers_, [&](const auto& entry) {
    const Peer& peer = entry.second;
    return now - peer.since > (peer.connected ? limits_.stay : limits_.setup) || now - peer.last > limits_.silence;
  });
}

}  // namespace uroce::ping
