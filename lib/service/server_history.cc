// Events of programs that the server's thread sees: for the log, and for `uroce explain`.
#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "service/qp_end_text.h"
#include "service/server_impl.h"
#include "transport/loss/retry_budget.h"

namespace uroce::service {
namespace {

/// For as long a request waits for its acknowledgement, and then for this thread.
std::chrono::nanoseconds time_of(const transport::QpEnd& end) {
  constexpr std::chrono::seconds kThread{1};
  if (!end.request || end.request->timeout == 0) return kThread;
  return kThread + transport::ack_timeout(end.request->timeout) * (end.request->retry_cnt + 1);
}

}  // namespace

void Server::Impl::look_at_links() {
  const auto now = std::chrono::steady_clock::now();
  for (const auto& device : all_devices) {
    const auto answer = device->link_up();
    const bool up = !answer || *answer;
    const auto [found, first] = links.try_emplace(device.get(), Link{.downs = device->link_downs(), .up = up});
    Link& link = found->second;
    const uint64_t downs = device->link_downs();
    if (downs != link.downs || (!up && link.up)) note_of_device(*device, "the link went down", now);
    if (up && (downs != link.downs || !link.up)) note_of_device(*device, "the link is up again", now);
    if (downs != link.downs || !up) link.last_down = now;
    link.downs = downs;
    link.up = up;
  }
}

void Server::Impl::note_of_device(const control::Device& device, std::string_view text, History::Time now) {
  const std::string& name = device.config().name;
  for (const auto& client : all()) {
    const auto has_it = [&](const ClientState* one) {
      const std::scoped_lock lock(one->session_mutex);
      return one->session != nullptr && one->session->device().get() == &device;
    };
    if (!std::ranges::any_of(client->devices(), has_it)) continue;
    what_happened.note(client->id(), client->peer(),
                       {.kind = History::Kind::trouble, .device = name, .text = fmt::format("{}: {}", name, text)},
                       now);
  }
}

void Server::Impl::log_ends() {
  const auto now = std::chrono::steady_clock::now();
  for (const auto& device : all_devices) {
    const control::QpEnds told = device->events().take_ends();
    if (told.ends.empty()) continue;
    const std::string& name = device->config().name;
    const auto link = links.find(device.get());
    const Clients clients_now = all();
    std::optional<uint32_t> payer;
    for (const auto& [number, end] : told.ends) {
      const auto client = std::ranges::find_if(clients_now, [id = number](const auto& one) { return one->has(id); });
      if (client == clients_now.end()) continue;
      const bool link_was_down =
          link != links.end() && link->second.last_down && now - *link->second.last_down < time_of(end);
      const std::string text = text_of(end, link_was_down);
      const Peer& peer = (*client)->peer();
      what_happened.note((*client)->id(), peer,
                         {.kind = History::Kind::trouble, .device = name, .qpn = end.qpn, .text = text}, now);
      payer = peer.payer();
      log_of_client(*payer, Severity::warning,
                    fmt::format("{}, client {} ({}, process {}): {}", name, number, peer.command, peer.pid, text));
    }
    if (told.more != 0 && payer) {
      log_of_client(*payer, Severity::warning, fmt::format("{}: {} more queue pairs ended at once", name, told.more));
    }
  }
}

}  // namespace uroce::service
