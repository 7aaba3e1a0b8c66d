#include "pmd_glue/service.h"

#include <algorithm>

namespace uroce::glue {

namespace {
/// How late a change of a link is seen; asking costs system calls on some ports.
constexpr Nanos kLinkInterval = std::chrono::milliseconds(20);
constexpr Nanos kReconnectInterval = std::chrono::milliseconds(200);
}  // namespace

void Service::start(std::vector<Client> clients, std::function<void()> prepare) {
  clients_ = std::move(clients);
  thread_ = std::thread([this, prepare = std::move(prepare)] {
    prepare();
    run();
  });
}

void Service::stop() {
  if (!thread_.joinable()) return;
  stop_.store(true, std::memory_order_relaxed);
  waker_.wake_always();
  thread_.join();
}

void Service::run() {
  std::vector<bool> was_up(clients_.size(), false);
  Nanos next_look{0};
  Nanos next_reconnect = clock_.now() + kReconnectInterval;
  while (!stop_.load(std::memory_order_relaxed)) {
    const Nanos now = clock_.now();
    const bool look = now >= next_look;
    if (look) next_look = now + kLinkInterval;
    const bool reconnect = now >= next_reconnect;
    if (reconnect) next_reconnect = now + kReconnectInterval;
    for (std::size_t i = 0; i < clients_.size(); ++i) {
      Client& client = clients_[i];
      if (look) client.port->refresh_link();
      const bool up = client.port->link_up();
      if (reconnect && !up) client.port->reconnect(client.pollers);
      if (up != was_up[i]) client.on_link(up);
      client.neighbourhood->step(up && !was_up[i]);
      was_up[i] = up;
    }
    waker_.prepare();
    Nanos until = next_look;
    for (Client& client : clients_) until = std::min(until, client.neighbourhood->next_deadline());
    waker_.sleep(std::max(until - clock_.now(), Nanos(0)));
  }
}

}  // namespace uroce::glue
