// A server's part in a restart.
#include "service/listener.h"
#include "service/server_impl.h"

namespace uroce::service {
namespace {

/// A connection that is just being accepted takes less.
constexpr std::chrono::seconds kHoldLimit{1};
constexpr std::chrono::milliseconds kHoldLook{1};

template <class Impl>
void go_on_accepting(Impl& server) {
  server.holding = false;
  server.ring();
}

}  // namespace

int Server::listener() const { return impl_->listener.get(); }

Result<void> Server::hold(const EstateVersions& versions) {
  impl_->holding = true;
  impl_->held = false;
  impl_->ring();
  for (const auto until = std::chrono::steady_clock::now() + kHoldLimit;
       !impl_->held && std::chrono::steady_clock::now() < until;) {
    std::this_thread::sleep_for(kHoldLook);
  }
  auto still = impl_->stand_still(versions);
  if (!still) go_on_accepting(*impl_);
  return still;
}

Result<void> Server::mark_steps() {
  for (const auto& device : impl_->all_devices) {
    if (auto marked = device->runner().mark_steps(); !marked) return marked;
  }
  return {};
}

std::size_t Server::outlive_threads() { return impl_->outlive_threads(); }

void Server::go_on() {
  impl_->numbers_written = Estate();
  impl_->move_on();
  go_on_accepting(*impl_);
}

Result<Bequest> Server::bequeath(message::SuccessionLink& successor) {
  const auto left = impl_->estate();
  if (!left) return std::unexpected(left.error());
  const auto& [estate, bequest] = *left;
  if (auto sent = send_estate(successor, estate); !sent) return std::unexpected(sent.error());
  return bequest;
}

Result<Bequest> Server::inherit(message::SuccessionLink& predecessor) {
  auto estate = receive_estate(predecessor);
  if (!estate) return std::unexpected(estate.error());
  return impl_->inherit(std::move(*estate));
}

void Server::begin() {
  impl_->config.inherited.reset();  // the rest of the belongings is closed
  own_listener(impl_->listener.get());
  impl_->begin();
  impl_->move_on();
}

}  // namespace uroce::service
