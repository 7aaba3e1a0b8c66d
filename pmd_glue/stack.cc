// The stack: it connects ports, engines, workers and the service thread.
#include <uroce/stack.h>

#include <fmt/format.h>
#include <rte_ethdev.h>
#include <rte_launch.h>
#include <rte_mbuf.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/secret.h"
#include "client/in_process.h"
#include "pmd_glue/ethdev_port.h"
#include "pmd_glue/fault_guard.h"
#include "pmd_glue/frame_size.h"
#include "pmd_glue/interface_port.h"
#include "pmd_glue/kif/super_frame.h"
#include "pmd_glue/stack_impl.h"
#include "pmd_glue/stack_options.h"
#include "wire/crc/kernel.h"

namespace uroce {

using namespace glue;

namespace {

constexpr std::size_t kMaxEngines = 64;
/// Longer than answers took on emulated cards whose engines share two processors with programs that poll: with 20 ms, 1
/// of 16,800 messages was sent again without need (tests/interop/time_cards.py). The usual local ACK timeout is 67 ms.
constexpr Nanos kSharedProcessor = std::chrono::milliseconds(40);

int worker_main(void* worker) {
  static_cast<Worker*>(worker)->run();
  return 0;
}

}  // namespace

Result<void> Stack::Impl::set_up(const std::vector<std::string>& args, const StackOptions& options,
                                 AskPredecessor ask) {
  if (auto ok = check_options(options); !ok) return ok;
  wire::crc::use(*wire::crc::find(options.icrc));
  auto started = Eal::start(args);
  if (!started) return std::unexpected(started.error());
  eal_ = std::move(*started);
  clock_ = std::make_unique<TscClock>();
  service_ = std::make_unique<ServiceThread>(*clock_);
  owner_ = std::this_thread::get_id();
  embedded = eal_->workers().empty() || options.own_loops;
  const std::size_t engines = std::min(eal_->workers().size() + (embedded ? 1 : 0), kMaxEngines);
  for (std::size_t i = 0; i < engines; ++i) workers_.push_back(std::make_unique<Worker>(options.idle, *clock_));
  make_loops();

  if (auto ok = inherit(options, ask); !ok) return ok;
  if (auto ok = open_ports(options); !ok) return ok;
  for (std::size_t i = 0; i < units.size(); ++i) {
    if (auto ok = make_unit(units[i], i, options_of_port(options, i)); !ok) return ok;
  }
  for (Unit& unit : units) {
    if (unit.port->needs_guard()) install_fault_guard();
    if (auto ok = unit.port->start(); !ok) return ok;
  }
  if (auto ok = make_port_queues(options); !ok) return ok;
  launch();
  inherited_ = nullptr;
  return {};
}

Result<void> Stack::Impl::open_ports(const StackOptions& options) {
  if (options.back_to_back) {
    auto rings = RingPair::make(engines(), options.tx_descriptors);
    if (!rings) return std::unexpected(rings.error());
    rings_ = std::move(*rings);
  }
  PortOptions port_options;
  port_options.engines = engines();
  port_options.rx_descriptors = static_cast<uint16_t>(options.rx_descriptors);
  port_options.tx_descriptors = static_cast<uint16_t>(options.tx_descriptors);
  port_options.tx_mode = options.tx_mode;
  port_options.rx_interrupts = options.idle == IdlePolicy::sleep;
  const auto next = [](uint64_t id) { return rte_eth_find_next_owned_by(static_cast<uint16_t>(id), 0); };
  for (uint64_t id = next(0); id < RTE_MAX_ETHPORTS; id = next(id + 1)) {
    const StackOptions own = options_of_port(options, units.size());
    port_options.mtu = own.mtu;
    port_options.vlan = static_cast<uint16_t>(own.vlan);
    port_options.kernel_addresses = has_kernel_addresses(options, units.size());
    auto port = EthdevPort::open(static_cast<uint16_t>(id), port_options);
    if (!port) return std::unexpected(port.error());
    units.emplace_back().port = std::move(*port);
  }
  for (uint16_t number = 0; const KernelInterface& interface : eal_->interfaces()) {
    const StackOptions own = options_of_port(options, units.size());
    port_options.mtu = own.mtu;
    port_options.vlan = static_cast<uint16_t>(own.vlan);
    port_options.inherited = inherited_;
    port_options.device = device_name(units.size());
    auto port = open_interface_port(interface, number++, port_options);
    if (!port) return std::unexpected(port.error());
    units.emplace_back().port = std::move(*port);
  }
  if (options.addresses.size() > units.size() && !units.empty()) {
    return fail(EINVAL, fmt::format("there are addresses for {} ports, but EAL finds {}; give one list for each port",
                                    options.addresses.size(), units.size()));
  }
  if (options.ports.size() > units.size() && !units.empty()) {
    return fail(EINVAL, fmt::format("there are settings for {} ports, but EAL finds {}; give one set for each port",
                                    options.ports.size(), units.size()));
  }
  if (!units.empty()) return {};
  return fail(ENODEV,
              "EAL finds no port; name one with --vdev (e.g. --vdev net_uroce_kif0,iface=eth0), or bind a "
              "card that this machine can do without to a DPDK driver and allow it with -a");
}

Result<void> Stack::Impl::make_unit(Unit& unit, std::size_t index, const StackOptions& options) {
  Port& port = *unit.port;
  auto gids = make_neighbourhood(unit, index, options);
  if (!gids) return std::unexpected(gids.error());
  std::vector<Waker*> wakers;
  for (const auto& worker : workers_) wakers.push_back(&worker->waker());
  auto handover = Handover::make(fmt::format("uroce{}", index), std::move(wakers), port.socket());
  if (!handover) return std::unexpected(handover.error());
  unit.handover = std::move(*handover);
  if (port.queues() < engines()) {
    auto shared = SharedQueue::make(fmt::format("uroce{}-tx", index), port.socket());
    if (!shared) return std::unexpected(shared.error());
    unit.shared = std::move(*shared);
  }
  control::DeviceConfig config;
  config.name = device_name(index);
  config.driver = port.driver();
  config.mac = port.mac();
  config.gids = std::move(*gids);
  if (unit.kernel_addresses != nullptr) config.kernel_interface = unit.kernel_addresses->interface();
  config.vlan = options.vlan;
  const auto prefixes = net::parse_prefixes(options.allow);
  if (!prefixes) return std::unexpected(prefixes.error());
  config.peers = PeerList(*prefixes);
  config.max_path_mtu = port.path_mtu();
  config.ethernet_mtu = port.max_frame() - kEtherOverhead;
  config.engines = engines();
  config.settings = options.settings;
  uint32_t& line_rate_mbps = config.settings.congestion.dcqcn.line_rate_mbps;
  if (line_rate_mbps == 0) line_rate_mbps = port.speed_mbps();
  if (options.idle != IdlePolicy::busy) config.peer_delay = kSharedProcessor;
  if (port.joins_frames()) {
    config.window_packets = kif::in_whole_super_frames(config.window_packets, mtu_bytes(port.path_mtu()));
  }
  config.read_window_packets = port.read_window_packets();
  config.seed = Secret::fresh();
  for (uint32_t engine = 0; engine < engines() && !options.record.empty(); ++engine) {
    auto recorder =
        record::FileRecorder::make(options.record, config.name, engine, std::size_t{options.record_mib} << 20);
    if (!recorder) return std::unexpected(recorder.error());
    for (const std::string& left : (*recorder)->left_by_the_dead()) {
      note(fmt::format(
          "a process before did not end as it should; to replay what its engine {} did last: uroce replay {}", engine,
          record::shell_word(left)));
    }
    (*recorder)->wake_by([this] { service_->waker().wake(); });
    config.tapes.push_back(&(*recorder)->tape());
    unit.recorders.push_back(std::move(*recorder));
  }
  std::vector<Worker*> workers;
  for (const auto& worker : workers_) workers.push_back(worker.get());
  unit.host = std::make_unique<Host>(
      port, *unit.neighbourhood, std::move(workers), *service_, config.peers, [this] { return runs_engines_here(); },
      [this] { poll_here(); });
  auto device = control::Device::create(std::move(config), *unit.host);
  if (!device) return std::unexpected(device.error());
  unit.device = std::move(*device);
  join_neighbourhood(unit);
  return {};
}

Result<void> Stack::Impl::make_port_queues(const StackOptions& options) {
  uint32_t small = 0;
  for (const Unit& unit : units) {
    const uint32_t in_flight = unit.port->external() == ExternalMemory::dma_mapped ? unit.port->tx_slots() : 0;
    if (unit.port->external() != ExternalMemory::never) small += engines() * 2 * (in_flight + 256);
  }
  if (small != 0) {
    // Stay below the range of a reference count (16 bits), see EtherSink.
    external_pool_ = rte_pktmbuf_pool_create_by_ops("uroce-small", std::min(small, 32768u), 64, 0,
                                                    RTE_PKTMBUF_HEADROOM + 64, SOCKET_ID_ANY, "ring_mt_rts");
    if (external_pool_ == nullptr)
      return fail(ENOMEM, "cannot allocate the small buffers; give EAL more memory with -m");
  }
  // With a ring pair the rings join queues of one engine, and there is no other port.
  for (const auto& worker : workers_) {
    if (rings_ && units.size() == 2) worker->set_self_contained();
  }
  for (Unit& unit : units) {
    const wire::ReceiveSpread* const spread = unit.port->receive_spread();
    for (uint32_t e = 0; e < engines(); ++e) {
      if (spread != nullptr && e < unit.port->queues()) unit.device->engine(e).know_spread(*spread);
      workers_[e]->add(std::make_unique<PortQueue>(
          PortQueueParts{*unit.port, *unit.handover, *unit.neighbourhood, unit.shared.get(), unit.device->engine(e),
                         external_pool_, options.receive_loss, options.whole_frames || options.receive_loss != 0,
                         !embedded || options.idle == IdlePolicy::busy}));
    }
  }
  for (const auto& worker : workers_) join_rings(*worker);
  return begin_faults(options);
}

Result<void> Stack::Impl::begin_faults(const StackOptions& options) {
  std::string text;
  if (!options.faults.empty()) {
    auto read = read_fault_file(options.faults);
    if (!read) return std::unexpected(read.error());
    text = std::move(*read);
  }
  std::vector<FaultDesk::Place> places;
  for (const auto& worker : workers_) {
    for (const auto& queue : worker->queues()) {
      const auto unit = std::ranges::find_if(units, [&](const Unit& one) { return one.port.get() == &queue->port(); });
      places.push_back({worker.get(), queue.get(), unit->device, unit->port.get()});
    }
  }
  faults_ = std::make_unique<FaultDesk>(Secret::fresh().plain_seed("faults"));
  return faults_->begin(std::move(places), text, options.faults, [this] {
    if (service_) service_->waker().wake_always();
  });
}

void Stack::Impl::join_rings(const Worker& worker) {
  if (!rings_) return;
  std::array<PortQueue*, 2> ends{};
  for (const auto& queue : worker.queues()) {
    const auto ports = rings_->ports();
    const auto end = std::ranges::find(ports, queue->port().id());
    if (end != ports.end()) ends[static_cast<std::size_t>(end - ports.begin())] = queue.get();
  }
  for (std::size_t i = 0; i < ends.size(); ++i) {
    const rte_ring* sent = rings_->sent(i, ends[i]->index());
    if (sent != nullptr) ends[i]->join(*ends[1 - i], *sent);
  }
}

void Stack::Impl::start_service() {
  std::vector<ServiceThread::ServedPort> ports;
  for (Unit& unit : units) {
    control::Device* device = unit.device.get();
    ports.push_back({.name = device->config().name,
                     .port = unit.port.get(),
                     .neighbourhood = unit.neighbourhood.get(),
                     .pollers = engines(),
                     .known_up = dormant_ && unit.port->link_up(),
                     .on_return = [kernel = unit.kernel.get()] { kernel->follow_interface(); },
                     .on_link = [device](bool up) { device->report_link(up); },
                     .on_gone = [device] { device->report_gone(); }});
  }
  service_->start(
      std::move(ports), [eal = eal_.get()] { eal->unpin(); },
      [this](Nanos now) {
        for (const Unit& unit : units) {
          for (const auto& recorder : unit.recorders) {
            while (const auto said = recorder->look(now)) note(*said);
          }
        }
        return faults_->take_turn(now);
      });
}

void Stack::Impl::launch() {
  if (!dormant_) start_service();
  telemetry_ = std::make_unique<Telemetry>([this] {
    std::vector<std::pair<std::string, CounterList>> all;
    for (const Unit& unit : units) all.emplace_back(unit.device->config().name, counters_of(unit));
    return all;
  });
  launch_workers();
}

void Stack::Impl::launch_workers() {
  if (embedded) return;
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    rte_eal_remote_launch(worker_main, workers_[i].get(), eal_->workers()[i]);
    launched_.push_back(eal_->workers()[i]);
  }
}

Stack::Impl::~Impl() {
  if (loops_) join_loops();
  telemetry_.reset();
  made_connections_ = nullptr;
  connections_.reset();  // while engines can still tell the peers
  for (const auto& worker : workers_) worker->stop();
  for (const unsigned lcore : launched_) rte_eal_wait_lcore(lcore);
  for (const auto& worker : workers_) worker->finish();
  if (service_) service_->stop();
  for (Unit& unit : units) {
    if (unit.device) unit.device->shut_down();
    unit.port->stop();
  }
  // All buffers go back to their pools, which may be another port's, before any pool is freed.
  workers_.clear();
  faults_.reset();
  for (Unit& unit : units) {
    unit.device.reset();
    unit.shared.reset();
    unit.handover.reset();
  }
  for (Unit& unit : units) unit.port->close();
  units.clear();
  rings_.reset();
  rte_mempool_free(external_pool_);
}

Stack::Stack(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Stack::~Stack() = default;
Stack::Stack(Stack&&) noexcept = default;
Stack& Stack::operator=(Stack&&) noexcept = default;

Result<Stack> Stack::start(const std::vector<std::string>& args, const StackOptions& options) {
  auto impl = std::make_unique<Impl>();
  if (auto ok = impl->set_up(args, options); !ok) return std::unexpected(ok.error());
  return Stack(std::move(impl));
}

std::vector<std::string> Stack::devices() const {
  std::vector<std::string> names;
  for (const Impl::Unit& unit : impl_->units) names.push_back(unit.device->config().name);
  return names;
}

Result<Context> Stack::open(std::string_view device) {
  for (const Impl::Unit& unit : impl_->units) {
    if (unit.device->config().name != device) continue;
    auto context = client::make_in_process_context(unit.device);
    if (!context) return std::unexpected(context.error());
    return Context(std::move(*context));
  }
  return fail(ENODEV, fmt::format("unknown device '{}'; there is uroce0{}", device,
                                  impl_->units.size() > 1 ? fmt::format(" to uroce{}", impl_->units.size() - 1) : ""));
}

bool Stack::embedded() const { return impl_->embedded; }

uint32_t Stack::engines() const { return impl_->engines(); }

Result<void> Stack::start_loop(uint32_t engine, std::function<void()> loop) {
  return impl_->start_loop(engine, std::move(loop));
}

void Stack::join_loops() { impl_->join_loops(); }

bool Stack::poll() { return impl_->embedded && impl_->poll_here(); }

void Stack::idle(std::chrono::nanoseconds limit) {
  if (impl_->embedded) impl_->idle_here(limit);
}

void Stack::wake(uint32_t engine) { impl_->wake(engine); }

}  // namespace uroce
