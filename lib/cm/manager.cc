#include "cm/manager.h"

#include "cm/manager_impl.h"

namespace uroce::cm {

Result<std::unique_ptr<Manager>> Manager::start(const std::vector<std::shared_ptr<control::Device>>& devices,
                                                const Secret& seed, Turns turns) {
  auto pipe = control::EventPipe::create();
  if (!pipe) return std::unexpected(pipe.error());
  auto impl = std::make_shared<Impl>(seed, turns, std::move(*pipe));
  for (const auto& device : devices) {
    auto gsi = Gsi::open(device);
    if (!gsi) return std::unexpected(gsi.error());
    const auto& mac = device->config().mac.bytes;
    IbCmConfig config{.seed = seed.derive("cm", impl->agents.size())};
    for (const uint8_t byte : mac) config.ca_guid = config.ca_guid << 8 | byte;
    impl->agents.push_back(std::make_unique<CmAgent>(device, std::move(*gsi), config));
  }
  if (turns == Turns::own_thread) impl->thread = std::thread([raw = impl.get()] { raw->run(); });
  return std::unique_ptr<Manager>(new Manager(std::move(impl)));
}

Manager::Manager(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

Manager::~Manager() {
  if (impl_->thread.joinable()) {
    {
      const std::scoped_lock lock(impl_->pause_mutex);
      impl_->stopping.store(true, std::memory_order_release);
    }
    impl_->pause_changed.notify_all();
    impl_->wake.signal();
    impl_->thread.join();
  }
  impl_->end();
}

bool Manager::turn(Nanos now) { return impl_->turn(now); }
Result<void> Manager::pause() { return impl_->pause(); }
bool Manager::outlive_threads() { return impl_->outlive_threads(); }
void Manager::resume() { impl_->resume(); }
ManagerSnapshot Manager::snapshot() { return impl_->snapshot(); }
Result<void> Manager::adopt(ManagerSnapshot snapshot) { return impl_->adopt(std::move(snapshot)); }
Nanos Manager::deadline() const { return impl_->planned.load(std::memory_order_relaxed); }

}  // namespace uroce::cm
