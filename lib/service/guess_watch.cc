#include "service/guess_watch.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "net/address.h"

namespace uroce::service {
namespace {

std::size_t thresholds_passed(const PeerGuesses& peer) {
  return static_cast<std::size_t>(
      std::ranges::count_if(GuessWatch::kThresholds, [&](uint64_t least) { return peer.total() >= least; }));
}

std::string text_of(std::string_view device, const PeerGuesses& peer) {
  std::string kinds;
  for (std::size_t kind = 0; kind < kGuessNames.size(); ++kind) {
    if (peer.counts[kind] == 0) continue;
    kinds += fmt::format("{}{} {}", kinds.empty() ? "" : ", ", kGuessNames[kind], peer.counts[kind]);
  }
  return fmt::format(
      "{}: {} frames from {} name what their sender should not know ({}); that host, or one that forges its address, "
      "may be guessing numbers: `uroce show peer` lists such addresses, and a switch or firewall can keep them out",
      device, peer.total(), net::to_text(peer.peer), kinds);
}

}  // namespace

Result<std::vector<PeerGuesses>> guesses_at(control::Device& device, const cm::Manager* connections) {
  auto all = device.guesses();
  if (all && connections != nullptr) merge_guesses(*all, connections->guesses(device.config().name));
  return all;
}

std::optional<std::string> GuessWatch::look(const std::vector<std::shared_ptr<control::Device>>& devices,
                                            const cm::Manager* connections, Time now) {
  if (looked_ && now - *looked_ < kLookInterval) return std::nullopt;
  looked_ = now;
  for (const auto& device : devices) {
    const std::string& name = device->config().name;
    if (connections != nullptr) {
      if (auto due = line(name, connections->slowed(name), now)) return due;
    }
    const uint64_t count = device->guess_count() + (connections != nullptr ? connections->guess_count(name) : 0);
    Of& of = devices_[name];
    if (count < kThresholds.front() || (count == of.seen && !of.untold)) continue;
    const auto peers = guesses_at(*device, connections);
    if (!peers) continue;
    of.seen = count;
    if (auto due = line(name, *peers, now)) return due;
  }
  return std::nullopt;
}

std::optional<std::string> GuessWatch::line(std::string_view device, const std::vector<PeerGuesses>& peers, Time now) {
  Of& of = devices_.try_emplace(std::string(device)).first->second;
  std::erase_if(of.told, [&](const auto& told) {
    return std::ranges::find(peers, told.first, &PeerGuesses::peer) == peers.end();
  });
  const PeerGuesses* most = nullptr;
  std::size_t untold = 0;
  for (const PeerGuesses& peer : peers) {
    const auto told = of.told.find(peer.peer);
    if (thresholds_passed(peer) <= (told != of.told.end() ? told->second : 0)) continue;
    ++untold;
    if (most == nullptr || peer.total() > most->total()) most = &peer;
  }
  const bool quiet = spoke_ && now - *spoke_ < kLineInterval;
  of.untold = quiet ? untold > 0 : untold > 1;
  if (most == nullptr || quiet) return std::nullopt;
  spoke_ = now;
  of.told[most->peer] = thresholds_passed(*most);
  return text_of(device, *most);
}

std::optional<std::string> GuessWatch::line(std::string_view device, const cm::Slowed& slowed, Time now) {
  Of& of = devices_.try_emplace(std::string(device)).first->second;
  if (slowed.requests == of.slowed || (spoke_ && now - *spoke_ < kLineInterval)) return std::nullopt;
  spoke_ = now;
  const uint64_t fresh = slowed.requests - std::exchange(of.slowed, slowed.requests);
  return fmt::format(
      "{}: {} connection requests were dropped, the last from {}, whose connections end by keys that open nothing; it "
      "gets one in a second, and its further requests are repeated until 40 s after its last wrong key: stop that host "
      "if it guesses, or mend its program",
      device, fresh, net::to_text(slowed.last));
}

}  // namespace uroce::service
