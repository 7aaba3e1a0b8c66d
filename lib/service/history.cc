#include "service/history.h"

#include <algorithm>
#include <vector>

namespace uroce::service {
namespace {

/// Some 150 bytes for each beside its texts: they fit a packet.
constexpr std::size_t kEventsPerReply = 64;
/// With a dozen kinds of objects for each, at some 40 bytes, they fit a packet.
constexpr std::size_t kLeftPerReply = 64;

}  // namespace

void History::note(uint32_t client, const Peer& peer, const What& what, Time now) {
  const std::scoped_lock lock(mutex_);
  if (!programs_.contains(client)) make_room();
  Program& program = programs_[client];
  program.pid = peer.pid;
  program.uid = peer.uid;
  program.command = peer.command;
  program.newest = next_;
  const bool trouble = what.kind == Kind::trouble;
  auto& events = trouble ? program.troubles : program.steps;
  const std::string_view text = what.text.substr(0, kText);
  if (!events.empty() && events.back().text == text && events.back().qpn == what.qpn) {
    Event& same = events.back();
    same.number = next_++;
    same.at = now;
    ++same.times;
    return;
  }
  if (events.size() == (trouble ? kTroubles : kSteps)) events.pop_front();
  events.push_back(
      {.number = next_++, .at = now, .device = std::string(what.device), .qpn = what.qpn, .text = std::string(text)});
}

void History::end(uint32_t client, Objects left) {
  const std::scoped_lock lock(mutex_);
  const auto found = programs_.find(client);
  if (found == programs_.end()) return;
  found->second.gone = true;
  found->second.left = std::move(left);
}

message::LeftRows History::left(uint32_t after, const Sight& sight) const {
  const std::scoped_lock lock(mutex_);
  message::LeftRows out;
  for (auto at = programs_.upper_bound(after); at != programs_.end() && !out.more; ++at) {
    const auto& [client, program] = *at;
    if (program.left.empty() || !sight.client_of(program.uid)) continue;
    out.more = out.rows.size() == kLeftPerReply;
    if (!out.more) out.rows.push_back({client, program.pid, program.uid, program.command, program.left});
  }
  return out;
}

// The user with the most programs loses one, so that nobody's programs push out those of others.
void History::make_room() {
  if (programs_.size() < kPrograms) return;
  std::map<uint32_t, std::size_t> of_user;
  for (const auto& [client, program] : programs_) ++of_user[program.uid];
  const uint32_t most = std::ranges::max_element(of_user, {}, [](const auto& one) { return one.second; })->first;
  auto victim = programs_.end();
  const auto older = [](const Program& a, const Program& b) { return a.gone != b.gone ? a.gone : a.newest < b.newest; };
  for (auto at = programs_.begin(); at != programs_.end(); ++at) {
    if (at->second.uid != most) continue;
    if (victim == programs_.end() || older(at->second, victim->second)) victim = at;
  }
  programs_.erase(victim);
}

bool History::concerns(const Program& program, const message::ListHistory& request) {
  if (request.pid != 0 && program.pid != request.pid) return false;
  if (!request.command.empty() && program.command != request.command) return false;
  if (request.qpn == 0) return true;
  const auto of_qp = [&request](const Event& event) { return event.qpn == request.qpn; };
  return std::ranges::any_of(program.steps, of_qp) || std::ranges::any_of(program.troubles, of_qp);
}

message::HistoryRows History::rows(const message::ListHistory& request, const Sight& sight, Time now) const {
  struct Found {
    const Event* event;
    uint32_t client;
    const Program* program;
    bool trouble;
  };
  const std::scoped_lock lock(mutex_);
  std::vector<Found> found;
  for (const auto& [client, program] : programs_) {
    if (!sight.client_of(program.uid) || program.newest <= request.after || !concerns(program, request)) continue;
    for (const bool trouble : {false, true}) {
      for (const Event& event : trouble ? program.troubles : program.steps) {
        const bool wanted = request.qpn == 0 || event.qpn == 0 || event.qpn == request.qpn;
        if (wanted && event.number > request.after) found.push_back({&event, client, &program, trouble});
      }
    }
  }
  std::ranges::sort(found, {}, [](const Found& one) { return one.event->number; });
  message::HistoryRows out;
  out.more = found.size() > kEventsPerReply;
  if (out.more) found.resize(kEventsPerReply);
  for (const Found& one : found) {
    const auto ago = std::chrono::duration_cast<std::chrono::milliseconds>(now - one.event->at).count();
    out.rows.push_back({.number = one.event->number,
                        .client = one.client,
                        .pid = one.program->pid,
                        .uid = one.program->uid,
                        .command = one.program->command,
                        .gone = one.program->gone,
                        .trouble = one.trouble,
                        .device = one.event->device,
                        .qpn = one.event->qpn,
                        .text = one.event->text,
                        .times = one.event->times,
                        .ago_ms = static_cast<uint64_t>(std::max(ago, decltype(ago){0}))});
  }
  return out;
}

}  // namespace uroce::service
