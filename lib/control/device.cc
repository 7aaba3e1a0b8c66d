#include "control/device.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <functional>
#include <tuple>

#include <poll.h>

#include <fmt/format.h>

#include "base/status_names.h"
#include "settings/table.h"
#include "transport/datagram/multicast.h"
#include "wire/drop.h"
#include "wire/text_names.h"

namespace uroce::control {
namespace {

constexpr uint32_t kMaxEngines = 64;

Result<void> check(const DeviceConfig& config) {
  const auto in_range = [&config](const char* what, uint64_t value, uint64_t min, uint64_t max) -> Result<void> {
    if (value >= min && value <= max) return {};
    return fail(EINVAL, fmt::format("{}: {} is {}; it must be {} to {}", config.name, what, value, min, max));
  };
  if (auto ok = in_range("the number of engines", config.engines, 1, kMaxEngines); !ok) return ok;
  if (auto ok = in_range("the VLAN id (0 for none)", static_cast<uint64_t>(config.vlan), 0, 4094); !ok) return ok;
  if (auto ok = settings::check(config.settings); !ok) {
    return fail(EINVAL, fmt::format("{}: {}", config.name, ok.error().text));
  }
  return in_range("the number of GIDs", config.gids.size(), 0, 256);
}

}  // namespace

Result<std::shared_ptr<Device>> Device::create(DeviceConfig config, DeviceHost& host) {
  if (auto ok = check(config); !ok) return std::unexpected(ok.error());
  const auto index_bits = static_cast<uint32_t>(std::bit_width(config.engines - 1));
  return std::shared_ptr<Device>(new Device(std::move(config), host, index_bits));
}

Device::Device(DeviceConfig config, DeviceHost& host, uint32_t index_bits)
    : config_(std::move(config)),
      index_bits_(index_bits),
      gids_(std::move(config_.gids)),
      former_(gids_),
      addresses_(gids_),
      objects_(config_.name, {.max_qp = config_.settings.max_qp, .max_mr = config_.settings.max_mr},
               config_.seed.derive("keys")),
      events_(objects_.cqs()),
      runner_(host, config_.name, config_.engine_timeout) {
  const uint32_t slots = std::bit_ceil(config_.settings.max_qp);  // any engine may get all queue pairs
  for (uint32_t index = 0; index < config_.engines; ++index) {
    transport::EngineConfig engine;
    engine.index = index;
    engine.index_bits = index_bits_;
    engine.max_qps = slots;
    engine.port_mtu = config_.max_path_mtu;
    engine.ethernet_mtu = config_.ethernet_mtu;
    engine.mac = config_.mac;
    engine.vlan = static_cast<uint16_t>(config_.vlan);
    engine.peers = config_.peers;
    engine.settings = config_.settings;
    engine.peer_delay = config_.peer_delay;
    engine.window_packets = config_.window_packets;
    engine.read_window_packets = config_.read_window_packets;
    engine.seed = config_.seed.derive("engine", index);
    engine.gids = gids_;
    if (index < config_.tapes.size()) engine.tape = config_.tapes[index];
    runner_.add(std::make_unique<transport::Engine>(engine, objects_.keys().table(), events_,
                                                    &objects_.address_handles().table()));
    objects_.qp_numbers().add_engine(QpnAllocator(index, index_bits_, slots, config_.seed.derive("qpn", index)));
  }
}

Device::~Device() = default;

void Device::shut_down() {
  runner_.stop();
  std::vector<std::function<void()>> stuck;
  {
    const auto lock = runner_.lock();
    stuck = objects_.take_deferred();
  }
  for (const auto& destroy : stuck) destroy();
}

std::size_t Device::release_late() {
  if (objects_.late() == 0 || !runner_.all_answer()) return objects_.late();
  std::vector<std::function<void()>> due;
  {
    const auto lock = runner_.lock();
    due = objects_.take_deferred();
  }
  // One that fails again is deferred again.
  for (const auto& destroy : due) destroy();
  return objects_.late();
}

void Device::report_link(bool up) {
  if (!up) link_downs_.fetch_add(1, std::memory_order_relaxed);
  events_.broadcast({up ? AsyncEventType::port_active : AsyncEventType::port_error, 1});
}

void Device::report_gone() { events_.broadcast({AsyncEventType::device_fatal, 1}); }

bool Device::redirect(const transport::NextHop& next_hop) {
  return runner_.try_post([next_hop](transport::Engine& engine) { engine.redirect(next_hop); },
                          [&] { objects_.address_handles().table().redirect(next_hop); });
}

Result<void> Device::check_alive() const {
  if (!runner_.stopped()) return {};
  return fail(ENODEV, fmt::format("{} was shut down; start the stack again and reopen the device", config_.name));
}

DeviceInfo Device::info() const {
  DeviceInfo info;
  info.name = config_.name;
  info.driver = config_.driver;
  info.mac = config_.mac;
  info.gids = gids();
  info.kernel_interface = config_.kernel_interface;
  info.active_mtu = config_.max_path_mtu;
  info.link_up = !runner_.stopped() && runner_.host().link_up();
  if (!runner_.stopped()) info.sending = runner_.host().sending();
  info.engines = runner_.count();
  info.max_qp = config_.settings.max_qp;
  info.max_qp_wr = kMaxQpWr;
  info.max_cq = kMaxCq;
  info.max_cqe = kMaxCqe;
  info.max_mr = config_.settings.max_mr;
  info.max_mw = config_.settings.max_mr;
  info.max_srq = kMaxSrq;
  info.max_ah = transport::AddressHandleTable::kCapacity;
  info.max_pd = kManyPds;
  info.max_multicast_attach = transport::MulticastGroups::kMaxMembers;
  info.max_flow = transport::FlowTable::kMaxRules;
  return info;
}

Result<bool> Device::link_up() const {
  if (auto alive = check_alive(); !alive) return std::unexpected(alive.error());
  return runner_.host().link_up();
}

Result<Nanos> Device::clock() const {
  if (auto alive = check_alive(); !alive) return std::unexpected(alive.error());
  return runner_.host().clock();
}

Result<int> Device::wake_descriptor(uint32_t engine) {
  if (auto alive = check_alive(); !alive) return std::unexpected(alive.error());
  return runner_.host().wake_descriptor(engine);
}

std::vector<std::pair<std::string, uint64_t>> Device::counters() const {
  using transport::EngineCounters;
  static constexpr std::pair<const char*, Counter EngineCounters::*> kNamed[] = {
      {"acks_sent", &EngineCounters::acks_sent},
      {"naks_sent", &EngineCounters::naks_sent},
      {"rnr_naks_sent", &EngineCounters::rnr_naks_sent},
      {"acks_received", &EngineCounters::acks_received},
      {"naks_received", &EngineCounters::naks_received},
      {"rnr_naks_received", &EngineCounters::rnr_naks_received},
      {"timeouts", &EngineCounters::timeouts},
      {"retransmitted_packets", &EngineCounters::retransmitted_packets},
      {"spurious_retransmissions", &EngineCounters::spurious_retransmissions},
      {"probes", &EngineCounters::probes},
      {"hellos_sent", &EngineCounters::hellos_sent},
      {"hellos_received", &EngineCounters::hellos_received},
      {"sacks_sent", &EngineCounters::sacks_sent},
      {"sacks_received", &EngineCounters::sacks_received},
      {"parked_packets", &EngineCounters::parked_packets},
      {"windows_refused", &EngineCounters::windows_refused},
      {"send_completions", &EngineCounters::send_completions},
      {"recv_completions", &EngineCounters::recv_completions},
      {"error_completions", &EngineCounters::error_completions},
      {"completions_dropped", &EngineCounters::completions_dropped},
      {"ecn_marked_received", &EngineCounters::ecn_marked_received},
      {"cnps_sent", &EngineCounters::cnps_sent},
      {"cnps_received", &EngineCounters::cnps_received},
      {"cnps_ignored", &EngineCounters::cnps_ignored},
      {"path_changes", &EngineCounters::path_changes},
      {"paced_waits", &EngineCounters::paced_waits},
      {"doorbells_bad", &EngineCounters::doorbells_bad},
      {"raw_sent", &EngineCounters::raw_sent},
      {"raw_refused", &EngineCounters::raw_refused},
      {"raw_received", &EngineCounters::raw_received},
      {"raw_unclaimed", &EngineCounters::raw_unclaimed},
      {"guesses", &EngineCounters::guesses},
  };
  transport::Traffic traffic;
  for (uint32_t i = 0; i < runner_.count(); ++i) traffic += runner_.engine(i).traffic().sum();
  std::vector<std::pair<std::string, uint64_t>> sums{{"rx_packets", traffic.rx_packets},
                                                     {"rx_bytes", traffic.rx_bytes},
                                                     {"tx_packets", traffic.tx_packets},
                                                     {"tx_bytes", traffic.tx_bytes}};
  const auto add = [&](std::string name, auto&& counter_of) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < runner_.count(); ++i) sum += counter_of(runner_.engine(i).counters()).get();
    sums.emplace_back(std::move(name), sum);
  };
  for (const auto& [name, member] : kNamed) {
    add(name, [member](const EngineCounters& c) -> const Counter& { return c.*member; });
  }
  for (const auto& [name, status] : kStatusNames) {
    if (status == WcStatus::success) continue;
    add(fmt::format("failed_{}", name),
        [status](const EngineCounters& c) -> const Counter& { return c.errors[static_cast<std::size_t>(status)]; });
  }
  const auto add_naks = [&add](std::string_view kind, auto member) {
    for (std::size_t code = 0; code < std::tuple_size_v<decltype(EngineCounters::naks_sent_for)>; ++code) {
      add(fmt::format("{}_{}", kind, wire::kNakNames[code]),
          [=](const EngineCounters& c) -> const Counter& { return (c.*member)[code]; });
    }
  };
  add_naks("nak_sent", &EngineCounters::naks_sent_for);
  add_naks("nak_received", &EngineCounters::naks_received_for);
  sums.emplace_back("link_downs", link_downs());
  for (std::size_t drop = 1; drop < wire::kDropCount; ++drop) {
    add("drop_" + std::string(wire::name(static_cast<wire::Drop>(drop))),
        [drop](const EngineCounters& c) -> const Counter& { return c.drops[drop]; });
  }
  return sums;
}

Result<std::vector<PeerGuesses>> Device::guesses() {
  std::vector<PeerGuesses> all;
  const auto lock = runner_.lock();
  for (uint32_t i = 0; i < runner_.count(); ++i) {
    auto ran = runner_.run(i, [&all](transport::Engine& engine) { merge_guesses(all, engine.guesses()); });
    if (!ran) return std::unexpected(ran.error());
  }
  return all;
}

uint64_t Device::guess_count() const {
  uint64_t sum = 0;
  for (uint32_t i = 0; i < runner_.count(); ++i) sum += runner_.engine(i).counters().guesses.get();
  return sum;
}

bool Device::wait_readable(int fd, std::chrono::nanoseconds timeout) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::nanoseconds kForEver = std::chrono::hours(24 * 365);  // keeps the sum from overflowing
  const auto deadline = Clock::now() + std::clamp(timeout, std::chrono::nanoseconds(0), kForEver);
  while (true) {
    const bool poll_engines = !runner_.stopped() && runner_.host().runs_engines_here();
    const auto left = std::max(std::chrono::nanoseconds(0), std::chrono::nanoseconds(deadline - Clock::now()));
    // A thread that runs the engines must not block: it only checks the descriptor.
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
    const timespec block{.tv_sec = poll_engines ? 0 : seconds.count(),
                         .tv_nsec = poll_engines ? 0 : (left - seconds).count()};
    pollfd event{.fd = fd, .events = POLLIN, .revents = 0};
    if (ppoll(&event, 1, &block, nullptr) > 0) return true;
    if (left.count() == 0) return false;
    if (poll_engines) runner_.host().wait_step();
  }
}

Result<Gid> Device::source_for(const Gid& dgid) const {
  if (auto alive = check_alive(); !alive) return std::unexpected(alive.error());
  return runner_.host().source_for(dgid);
}

bool Device::is_ours(const Gid& gid) const {
  const std::scoped_lock lock(gids_mutex_);
  return std::ranges::find(gids_, gid) != gids_.end();
}

Result<void> Device::probe(const Gid& sgid, const Gid& dgid, uint32_t user) {
  if (auto alive = check_alive(); !alive) return alive;
  if (dgid.is_multicast() || is_ours(dgid)) return {};
  if (auto mac = runner_.host().resolve(sgid, dgid, user, std::chrono::nanoseconds(0)); !mac) {
    return std::unexpected(mac.error());
  }
  return {};
}

Result<PeerRoute> Device::resolve(const AddressVector& av, uint32_t user, std::chrono::nanoseconds timeout) {
  const std::vector<Gid> gids = this->gids();
  const Gid sgid = gids[av.sgid_index];
  PeerRoute peer;
  peer.route.src_mac = config_.mac;
  if (config_.vlan != 0) peer.route.vlan = static_cast<uint16_t>(config_.vlan);
  peer.route.sgid = sgid;
  peer.route.dgid = av.dgid;
  peer.route.traffic_class = av.traffic_class;
  peer.route.hop_limit = av.hop_limit != 0 ? av.hop_limit : AddressVector{}.hop_limit;
  peer.route.flow_label = av.flow_label;
  if (av.dgid.is_multicast()) {
    peer.route.dst_mac = wire::multicast_mac(av.dgid);
    return peer;
  }
  if (std::ranges::find(gids, av.dgid) != gids.end()) {
    peer.loopback = true;
    peer.route.dst_mac = config_.mac;
    return peer;
  }
  auto mac = runner_.host().resolve(sgid, av.dgid, user, timeout);
  if (!mac) return std::unexpected(mac.error());
  peer.route.dst_mac = *mac;
  return peer;
}

void Device::refresh(PeerRoute& peer) const {
  if (peer.loopback || peer.route.dgid.is_multicast()) return;
  if (const auto mac = runner_.host().next_hop(peer.route.dgid)) peer.route.dst_mac = *mac;
}

}  // namespace uroce::control
