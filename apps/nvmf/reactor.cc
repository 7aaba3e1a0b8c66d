#include "nvmf/reactor.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <utility>

namespace uroce::nvmf {

using namespace std::chrono_literals;

namespace {

constexpr Nanos kCheckEvery = 100ms;
/// Operations that the kernel has at once. Each one beyond a disk's tags, 128 of a loop device, takes a thread of the
/// kernel that waits, and the rate falls to as little as a tenth.
constexpr uint32_t kRingEntries = 64;
/// For disks to end what they do, at the end of the program. systemd waits 90 s.
constexpr std::chrono::seconds kDiskLimit{10};
/// Passes without work before the thread rests: some microseconds, the time between two requests of a busy host.
constexpr uint32_t kPatience = 2000;

}  // namespace

Result<std::unique_ptr<Reactor>> Reactor::make(uint32_t index, Network& network, Target& target, Reports& reports,
                                               uint32_t buffers) {
  auto ring = IoRing::open(kRingEntries);
  if (!ring) return std::unexpected(ring.error());
  auto pool = BufferPool::make(buffers);
  if (!pool) return std::unexpected(pool.error());
  return std::unique_ptr<Reactor>(new Reactor(index, network, target, reports, std::move(*ring), std::move(*pool)));
}

Reactor::~Reactor() {
  for (Entry& one : queues_) one.queue->close();
  if (ring_.drain(kDiskLimit)) return;
  // The kernel may still write to the buffers, so nothing of this process may be freed and used again.
  std::fprintf(stderr,
               "uroce_nvmf: %u operations on disks have not ended %lld s after they were cancelled; the program ends "
               "without them, and what they write is lost or not; look for a disk that hangs (dmesg)\n",
               ring_.outstanding(), static_cast<long long>(std::chrono::seconds(kDiskLimit).count()));
  std::fflush(nullptr);
  _exit(1);
}

bool Reactor::poll(Nanos now) {
  bool worked = network_.poll();
  if (orders_.waiting()) {
    obey(now);
    worked = true;
  }
  for (Entry& one : queues_) worked |= one.queue->poll(now);
  if (now >= next_check_) worked |= check(now);
  worked |= ring_.poll();
  return worked;
}

void Reactor::rest() {
  if (network_.wakes()) {
    // The stack polls on for a while by itself, and a disk does not wake it.
    network_.idle(ring_.outstanding() > 0 ? Nanos(20us) : Nanos(1ms));
  } else if (++idle_passes_ > kPatience) {
    // The first connection can wait a little.
    network_.idle(queues_.empty() ? Nanos(2ms) : Nanos(50us));
  }
}

void Reactor::obey(Nanos now) {
  for (const Order& order : orders_.take()) {
    if (const auto* const wanted = std::get_if<Open>(&order)) {
      open(*wanted, now);
    } else {
      close(std::get<Close>(order));
    }
  }
}

void Reactor::open(const Open& order, Nanos now) {
  auto made = make_queue(order, now);
  if (!made) return report(Failed{order.number});
  report(Opened{order.number, (*made)->qp().qpn()});
  queues_.push_back({order.number, std::move(*made)});
  if (order.terms.queue_id != 0) counters_.queues.add();
}

Result<std::unique_ptr<Queue>> Reactor::make_queue(const Open& order, Nanos now) {
  const auto found = device(order.device);
  if (!found) return std::unexpected(found.error());
  auto queue = Queue::create(**found, {target_, ring_, pool_, counters_}, order.terms, now);
  if (!queue) return queue;
  for (std::size_t step = 0; step < order.steps.size(); ++step) {
    const auto& [attr, mask] = order.steps[step];
    if (auto done = (*queue)->qp().modify(attr, mask); !done) return std::unexpected(done.error());
    if (step > 0) continue;
    if (auto done = (*queue)->post_receives(); !done) return std::unexpected(done.error());
  }
  return queue;
}

void Reactor::close(const Close& order) {
  for (Entry& one : queues_) {
    if (one.number == order.number && !(order.unless_connected && one.queue->connected())) one.queue->close();
  }
  next_check_ = {};
}

bool Reactor::check(Nanos now) {
  next_check_ = now + kCheckEvery;
  for (Entry& one : queues_) {
    one.queue->check(now);
    if (one.queue->connected() && !std::exchange(one.connected, true)) {
      report(Connected{one.number, one.queue->listed()});
    }
  }
  const auto report_end = [this](const Entry& one) {
    if (!one.queue->finished()) return false;
    report(Ended{one.number});
    return true;
  };
  return std::erase_if(queues_, report_end) != 0;
}

// The first reactor looks at the reports in the same pass.
void Reactor::report(Report report) {
  if (reports_.put(report) && index_ != 0) network_.wake(0);
}

Result<Device*> Reactor::device(const std::string& name) {
  auto& known = devices_[name];
  if (known != nullptr) return known.get();
  auto context = network_.device(name);
  if (!context) return std::unexpected(context.error());
  auto pd = context->create_pd();
  if (!pd) return std::unexpected(pd.error());
  const auto memory = pool_.memory();
  auto region = pd->register_memory(memory.data(), memory.size(), Access::local_write);
  if (!region) return std::unexpected(region.error());
  known = std::make_unique<Device>(
      Device{std::move(*context), std::move(*pd), std::move(*region), network_.engine_of(index_)});
  return known.get();
}

}  // namespace uroce::nvmf
