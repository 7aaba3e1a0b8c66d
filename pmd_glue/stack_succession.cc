// A stack's part in a planned restart: a daemon hands its ports to a successor that has opened the same.
#include <fmt/format.h>
#include <net/if.h>
#include <rte_ethdev.h>
#include <rte_launch.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <chrono>
#include <thread>

#include "pmd_glue/frame_size.h"
#include "pmd_glue/netdev.h"
#include "pmd_glue/stack_impl.h"
#include "pmd_glue/stack_options.h"

namespace uroce {

using namespace glue;

namespace {

/// A port that stays full for so long has frames to lose.
constexpr int kTriesToSend = 20;
constexpr std::chrono::microseconds kBetweenTries{200};

std::unexpected<Error> no_interface(const std::string& port) {
  return fail(EOPNOTSUPP,
              fmt::format("port {} is no interface of the kernel, and --replace serves those alone; restart "
                          "the ordinary way: stop uroced, and start it",
                          port));
}

void add_limits(message::DeviceFacts& facts, const EngineSettings& settings) {
  facts.max_qp = std::bit_ceil(settings.max_qp);
  facts.max_mr = std::bit_ceil(settings.max_mr);
}

}  // namespace

Result<void> Stack::Impl::inherit(const StackOptions& options, const AskPredecessor& ask) {
  if (!ask) return {};
  auto facts = facts_before_opening(options);
  if (!facts) return std::unexpected(facts.error());
  auto belongings = ask(std::move(*facts));
  if (!belongings) return std::unexpected(belongings.error());
  inherited_ = *belongings;
  dormant_ = true;
  for (std::size_t i = 0; i < workers_.size(); ++i) workers_[i]->waker().inherit(*inherited_, i);
  return {};
}

// As the ports will have them. The interface's MTU is not changed before the other daemon knows.
Result<std::vector<message::DeviceFacts>> Stack::Impl::facts_before_opening(const StackOptions& options) const {
  if (options.back_to_back) return no_interface("of --demo");
  if (const uint64_t id = rte_eth_find_next_owned_by(0, 0); id < RTE_MAX_ETHPORTS) {
    char name[RTE_ETH_NAME_MAX_LEN] = "";
    rte_eth_dev_get_name_by_port(static_cast<uint16_t>(id), name);
    return no_interface(name);
  }
  std::vector<message::DeviceFacts> out;
  for (const KernelInterface& on : eal_->interfaces()) {
    const StackOptions own = options_of_port(options, out.size());
    const auto mac = netdev_mac(on.interface);
    if (!mac) return fail(mac.error().code, fmt::format("interface {}: {}", on.interface, mac.error().text));
    const auto mtu = netdev_mtu(on.interface);
    if (!mtu) return fail(mtu.error().code, fmt::format("interface {}: {}", on.interface, mtu.error().text));
    out.push_back({.name = device_name(out.size()),
                   .interface = on.interface,
                   .mac = *mac,
                   .mtu = own.mtu != 0 ? static_cast<uint32_t>(own.mtu) : std::min(*mtu, kFullMtu),
                   .vlan = static_cast<uint32_t>(own.vlan),
                   .engines = engines()});
    add_limits(out.back(), own.settings);
  }
  return out;
}

Result<std::vector<message::DeviceFacts>> Stack::Impl::facts() const {
  std::vector<message::DeviceFacts> out;
  for (const Unit& unit : units) {
    const Port& port = *unit.port;
    if (!port.is_kernel_interface()) return no_interface(port.name());
    const control::DeviceConfig& config = unit.device->config();
    char interface[IF_NAMESIZE] = "";
    if_indextoname(port.interface_index(), interface);
    out.push_back({.name = config.name,
                   .interface = interface,
                   .mac = port.mac(),
                   .mtu = port.mtu(),
                   .vlan = static_cast<uint32_t>(config.vlan),
                   .engines = engines()});
    add_limits(out.back(), config.settings);
  }
  return out;
}

message::Belongings Stack::Impl::lend() const {
  message::Belongings out;
  for (std::size_t i = 0; i < workers_.size(); ++i) workers_[i]->waker().lend(out, i);
  for (const Unit& unit : units) {
    const std::string& device = unit.device->config().name;
    unit.port->lend(out, device);
    unit.kernel->lend(out, device);
  }
  return out;
}

void Stack::Impl::freeze() {
  for (const auto& worker : workers_) worker->stop();
  for (const unsigned lcore : launched_) rte_eal_wait_lcore(lcore);
  launched_.clear();
  settle();
}

// A successor has the sockets, and the frames that wait in them. It has no frame that was taken from them, or has not
// reached them yet, and unreliable queue pairs send nothing again.
void Stack::Impl::settle() {
  const auto receive_rest = [](const auto& worker) { return worker->receive_rest(); };
  while (std::ranges::count_if(workers_, receive_rest) != 0) {
  }
  const auto blocked = [](const auto& worker) { return worker->blocked(); };
  for (int tries = 0; tries < kTriesToSend; ++tries) {
    for (const auto& worker : workers_) worker->finish();
    if (std::ranges::none_of(workers_, blocked)) return;
    std::this_thread::sleep_for(kBetweenTries);
  }
}

void Stack::Impl::thaw() {
  for (const auto& worker : workers_) worker->begin_again();
  launch_workers();
}

void Stack::Impl::awaken() {
  for (Unit& unit : units) {
    unit.kernel->become_holder();
    unit.port->awaken();
  }
  for (const auto& worker : workers_) {
    worker->waker().awaken();
    worker->waker().wake_always();
  }
  start_service();
}

void Stack::Impl::abandon() {
  telemetry_.reset();
  service_->stop();
  eal_.reset();
}

}  // namespace uroce
