#include "pmd_glue/service_thread.h"

#include <algorithm>
#include <utility>

#include "pmd_glue/link_note.h"
#include "pmd_glue/notes.h"

namespace uroce::glue {

namespace {
/// Longest delay until a change of a link is seen. Asking costs system calls on some ports.
constexpr Nanos kLinkInterval = std::chrono::milliseconds(20);
/// Where changes of all links wake the thread, and all links are up.
constexpr Nanos kLongestInterval = std::chrono::milliseconds(640);
}  // namespace

void ServiceThread::start(std::vector<ServedPort> ports, std::function<void()> prepare,
                          std::function<Nanos(Nanos)> look) {
  ports_ = std::move(ports);
  look_ = std::move(look);
  hears_of_links_ = std::ranges::all_of(ports_, [](const ServedPort& served) {
    return !served.port->link_changes() || served.neighbourhood->hears_of_link();
  });
  thread_ = std::thread([this, prepare = std::move(prepare)] {
    prepare();
    run();
  });
}

void ServiceThread::stop() {
  if (!thread_.joinable()) return;
  stop_.store(true, std::memory_order_relaxed);
  waker_.wake_always();
  thread_.join();
}

Nanos ServiceThread::interval_after(Nanos interval) const {
  const auto up = [](const ServedPort& served) { return served.port->link_up(); };
  if (!hears_of_links_ || !std::ranges::all_of(ports_, up)) return kLinkInterval;
  return std::min(2 * interval, kLongestInterval);
}

void ServiceThread::run() {
  std::vector<bool> was_up, was_gone(ports_.size(), false);
  for (const ServedPort& served : ports_) was_up.push_back(served.known_up);
  std::vector<uint32_t> returns(ports_.size(), 0);
  std::vector<LinkNote> notes(ports_.size());
  Nanos next_look{0}, interval = kLinkInterval;
  Nanos next_reconnect = clock_.now() + Port::kReconnectInterval;
  while (!stop_.load(std::memory_order_relaxed)) {
    const Nanos now = clock_.now();
    const bool look = now >= next_look;
    if (look) {
      next_look = std::min(now + interval, look_(now));
    }
    const bool reconnect = now >= next_reconnect;
    if (reconnect) next_reconnect = now + Port::kReconnectInterval;
    for (std::size_t i = 0; i < ports_.size(); ++i) {
      ServedPort& served = ports_[i];
      if (look) served.port->look_at_link();
      const bool up = served.port->link_up();
      if (reconnect && !up) served.port->reconnect(served.pollers);
      if (const uint32_t seen = std::exchange(returns[i], served.port->interface_returns()); seen != returns[i]) {
        served.on_return();
      }
      if (up != was_up[i]) served.on_link(up);
      if (const auto line = notes[i].look(served.name, up, now)) note(*line, up ? NoteLevel::info : NoteLevel::warning);
      if (served.port->gone() && !was_gone[i]) served.on_gone();
      was_gone[i] = served.port->gone();
      served.neighbourhood->step(up && !was_up[i]);
      was_up[i] = up;
    }
    waker_.prepare();
    Nanos until = next_look;
    for (const LinkNote& one : notes) until = std::min(until, one.next_deadline());
    for (ServedPort& served : ports_) until = std::min(until, served.neighbourhood->next_deadline());
    next_turn_.store(until, std::memory_order_relaxed);
    if (waker_.sleep(std::max(until - clock_.now(), Nanos(0)))) {
      next_look = std::min(next_look, now + kLinkInterval);
      interval = kLinkInterval;
    } else if (look) {
      interval = interval_after(interval);
    }
  }
  for (const ServedPort& served : ports_) served.port->look_at_link();  // says what happened since the last look
}

}  // namespace uroce::glue
