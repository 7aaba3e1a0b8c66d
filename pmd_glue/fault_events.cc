#include "pmd_glue/fault_events.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/peer_list.h"
#include "control/completion_faults.h"
#include "control/engine_of.h"
#include "control/packet_sender.h"

namespace uroce::glue {

namespace {

using control::EventObject;

/// Events with which a queue pair is in the error state (IBTA vol. 1, 11.6.3).
bool ends_qp(AsyncEventType type) {
  return type == AsyncEventType::qp_fatal || type == AsyncEventType::qp_request_error ||
         type == AsyncEventType::qp_access_error;
}

void end_qp(control::Device& device, uint32_t qpn) {
  const auto lock = device.runner().lock();
  const uint32_t engine = control::engine_of(device, qpn);
  if (engine >= device.engines()) return;
  (void)device.runner().run(engine, [qpn](transport::Engine& on) { (void)control::end_qp(on, qpn); });
}

}  // namespace

void FaultEvents::add_place(Place place) {
  const auto same = [&](const Place& one) { return one.device == place.device; };
  if (std::ranges::none_of(places_, same)) places_.push_back(std::move(place));
}

void FaultEvents::add(const faults::Rules& rules) {
  for (const auto& one : faults::of(faults::Subject::events, rules)) {
    due_.push_back({.at = one->begin(), .left = one->rule.count.value_or(1), .rule = one});
  }
}

void FaultEvents::keep(const faults::Rules& rules) {
  std::erase_if(due_, [&](const Due& due) {
    if (std::ranges::find(rules, due.rule) != rules.end()) return false;
    if (due.ends) (void)run(due, due.at);
    return true;
  });
}

Nanos FaultEvents::take_turn(Nanos now) {
  for (;;) {
    const auto next = std::ranges::min_element(due_, {}, &Due::at);
    if (next == due_.end()) return kNever;
    if (next->at > now) return next->at;
    const Due due = std::move(*next);
    due_.erase(next);
    if (auto after = run(due, now)) due_.push_back(std::move(*after));
  }
}

template <class Work>
void FaultEvents::at_places(const faults::Rule& rule, Work work) const {
  for (const Place& place : places_) {
    if (rule.device.empty() || rule.device == place.device->config().name) work(place);
  }
}

std::optional<FaultEvents::Due> FaultEvents::run(const Due& due, Nanos now) {
  const faults::Rule& rule = due.rule->rule;
  const bool is_of_link = rule.action == faults::Action::link_down;
  if (is_of_link || rule.action == faults::Action::gid_gone) {
    if (is_of_link) {
      at_places(rule, [&](const Place& place) { place.port->cut(!due.ends); });
    } else {
      std::erase(gone_, due.rule);
      if (!due.ends && due.rule->fires(due.at)) gone_.push_back(due.rule);
      take_gids_away();
    }
    if (due.ends) return std::nullopt;
    return Due{.at = due.rule->end(), .ends = true, .rule = due.rule};
  }
  if (due.rule->fires(now)) {
    at_places(rule, [&](const Place& place) { raise(*place.device, rule); });
  }
  if (due.left <= 1) return std::nullopt;
  return Due{.at = due.at + rule.after, .left = due.left - 1, .rule = due.rule};
}

void FaultEvents::take_gids_away() const {
  for (const Place& place : places_) {
    faults::Rules its;
    std::ranges::copy_if(gone_, std::back_inserter(its), [&](const auto& one) {
      return one->rule.device.empty() || one->rule.device == place.device->config().name;
    });
    const auto is_gone = [its](const Gid& gid) {
      return std::ranges::any_of(its, [&](const auto& one) { return PeerList(one->rule.gids).takes(gid); });
    };
    (void)place.device->leave_out_gids(is_gone);
  }
}

void FaultEvents::raise(control::Device& device, const faults::Rule& rule) {
  const EventObject kind = rule.event ? control::object_of(*rule.event) : EventObject::cq;
  if (kind == EventObject::port) {
    device.events().broadcast({*rule.event, 1});
    return;
  }
  const auto objects = rule.object ? std::vector<uint32_t>{*rule.object} : device.events().objects(kind);
  for (const uint32_t object : objects) {
    if (kind == EventObject::qp && object == transport::kGsiQpn) continue;  // no program's
    if (!rule.event) {
      control::wake_completion_queue(device, object);
      continue;
    }
    if (*rule.event == AsyncEventType::cq_error) {
      control::overrun_completion_queue(device, object);
      continue;
    }
    if (ends_qp(*rule.event)) end_qp(device, object);
    device.events().on_async_event(*rule.event, object);
  }
}

}  // namespace uroce::glue
