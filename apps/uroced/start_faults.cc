#include "uroced/start_faults.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <net/if.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <memory>
#include <optional>

#include "pmd_glue/pci.h"
#include "pmd_glue/stack_options.h"

namespace uroce::daemon {

namespace {

namespace fs = std::filesystem;

/// A card that the machine needs is not one that EAL should find by itself.
bool is_for_eal(const glue::PciCard& card, const glue::InterfaceUses& interfaces) {
  if (card.for_programs()) return true;
  const auto interface = glue::interface_of_card(card.address, interfaces);
  return card.keeps_kernel_driver() && (!interface || interface->need().empty());
}

/// Of the virtual buses that DPDK looks through as well: Hyper-V's, and that of NXP's processors.
bool other_bus_has_ports() {
  std::error_code error;
  if (fs::exists("/sys/bus/fslmc", error)) return true;
  for (const auto& entry : fs::directory_iterator("/sys/bus/vmbus/drivers/uio_hv_generic", error)) {
    if (std::isxdigit(static_cast<unsigned char>(entry.path().filename().native().front())) != 0) return true;
  }
  return false;
}

/// The interface to name in an example.
std::string example_of(const glue::InterfaceUses& interfaces) {
  const auto first = [&](auto&& good) -> std::optional<std::string> {
    const auto found =
        std::ranges::find_if(interfaces, [&](const auto& one) { return one.first != "lo" && good(one.second); });
    return found == interfaces.end() ? std::nullopt : std::optional(found->first);
  };
  if (const auto name = first([](const glue::InterfaceUse& use) { return use.default_route; })) return *name;
  return first([](const glue::InterfaceUse& use) { return !use.addresses.empty(); }).value_or("eth0");
}

bool names_a_device(const std::vector<std::string>& args) { return glue::names_option(args, {"vdev", "a", "allow"}); }

/// Empty when there may be a port.
std::string no_port(const CommandLine& command, const Config& config, const std::vector<std::string>& args,
                    const glue::EalPlan& plan, const std::function<Ports()>& read) {
  if (command.demo || !plan.interfaces.empty() || names_a_device(args)) return {};
  const Ports ports = read();
  if (ports.eal_may_find && plan.every_card) return {};
  const std::string& file = command.check_file.empty() ? command.config_file : command.check_file;
  const bool eal_said = !command.eal.empty() || !config.eal.empty();
  const std::string who =
      file.empty() || eal_said ? fmt::format("the EAL arguments \"{}\" name", fmt::join(args, " ")) : file + " names";
  const std::string name = example_of(ports.interfaces);
  return fmt::format(
      "{} no port to serve{}. Name an interface of the kernel, which keeps it: --interface {}{}; uroced --check shows "
      "the cards",
      who, plan.every_card ? ", and no card is bound to a driver for programs" : "", name,
      file.empty() ? "" : fmt::format(", or in the file a table [[device]] with interface = \"{}\"", name));
}

/// Of cards the number of ports is not known, nor of drivers that make several.
std::string wrong_number(const CommandLine& command, const StackOptions& options, const std::vector<std::string>& args,
                         const glue::EalPlan& plan) {
  constexpr std::array kOnePort{"net_af_packet", "net_af_xdp", "net_memif", "net_null", "net_pcap", "net_tap"};
  const bool known = std::ranges::all_of(plan.vdevs, [&](const std::string& vdev) {
    return std::ranges::any_of(kOnePort, [&](const char* driver) { return vdev.starts_with(driver); });
  });
  const std::size_t most = plan.vdevs.size() + plan.interfaces.size() + (command.demo ? 2 : 0);
  if (!known || plan.every_card || glue::names_option(args, {"a", "allow"}) || most == 0) return {};
  const std::size_t settings = std::max(options.ports.size(), options.addresses.size());
  if (settings <= most) return {};
  return fmt::format("there are settings for {} ports, but EAL finds {} at most; give one set for each port", settings,
                     most);
}

void add(std::vector<std::string>& faults, std::string text) {
  if (!text.empty()) faults.push_back(std::move(text));
}

}  // namespace

Ports read_ports() {
  Ports ports{.interfaces = glue::read_interface_uses()};
  const std::unique_ptr<struct if_nameindex, decltype(&if_freenameindex)> all(if_nameindex(), if_freenameindex);
  for (const struct if_nameindex* one = all.get(); one != nullptr && one->if_index != 0; ++one)
    ports.interfaces.try_emplace(one->if_name);
  const auto cards = glue::ethernet_cards();
  ports.eal_may_find = other_bus_has_ports() || std::ranges::any_of(cards, [&](const glue::PciCard& card) {
                         return is_for_eal(card, ports.interfaces);
                       });
  return ports;
}

std::vector<std::string> faults_of_settings(const CommandLine& command, const Config& config,
                                            const std::vector<std::string>& args, const glue::HostFacts& host,
                                            const std::function<Ports()>& ports) {
  std::vector<std::string> faults;
  const StackOptions options = config.stack_options();
  if (const auto ok = glue::check_options(options); !ok) faults.push_back(ok.error().text);
  for (std::size_t port = 0; port < options.addresses.size(); ++port) {
    if (glue::has_kernel_addresses(options, port)) continue;
    const auto table = glue::address_table(glue::options_of_port(options, port), port, {});
    if (!table) faults.push_back(table.error().text);
  }
  const auto plan = glue::plan_eal(args, host);
  if (!plan) {
    faults.push_back(fmt::format("EAL arguments: {}", plan.error().text));
    return faults;
  }
  add(faults, no_port(command, config, args, *plan, ports));
  add(faults, wrong_number(command, options, args, *plan));
  return faults;
}

std::vector<std::string> faults_of_machine(const std::vector<std::string>& args, const glue::HostFacts& host,
                                           const Ports& ports) {
  std::vector<std::string> faults;
  const auto plan = glue::plan_eal(args, host);
  if (!plan) return faults;
  for (const glue::KernelInterface& port : plan->interfaces) {
    if (ports.interfaces.contains(port.interface)) continue;
    faults.push_back(
        fmt::format("there is no network interface {} now; `ip link` lists those that there are", port.interface));
  }
  return faults;
}

}  // namespace uroce::daemon
