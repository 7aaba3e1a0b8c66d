#include "pmd_glue/kernel_port.h"

#include <fmt/format.h>
#include <rte_ethdev.h>

#include <algorithm>
#include <utility>

#include "pmd_glue/frame_size.h"
#include "pmd_glue/netdev.h"
#include "pmd_glue/notes.h"

namespace uroce::glue {

Result<std::unique_ptr<Port>> KernelPort::open(const KernelInterface& on, uint16_t number, const PortOptions& options) {
  std::unique_ptr<KernelPort> port(new KernelPort(static_cast<uint16_t>(RTE_MAX_ETHPORTS + number)));
  if (auto ok = port->set_up(on, options); !ok) return std::unexpected(ok.error());
  return port;
}

Result<void> KernelPort::set_up(const KernelInterface& on, const PortOptions& options) {
  name_ = on.port;
  driver_ = kKernelInterfaceDriver;
  auto interface = kif::Interface::open(on);
  if (!interface) return fail_port(interface.error().code, interface.error().text);
  interface_ = std::move(*interface);
  mac_ = interface_->mac();
  queues_ = static_cast<uint16_t>(std::min<uint32_t>(options.engines, kif::kMaxQueues));
  take_heritage(options);
  const auto asked = asked_mtu(options);
  if (!asked) return std::unexpected(asked.error());
  if (auto ok = choose_mtu(*asked); !ok) return ok;
  // The kernel copies a super-frame's pieces one by one. Three for each packet take it longer than our copy does, which
  // is made in the same pass as the ICRC.
  const bool pieces = options.tx_mode == StackOptions::TxMode::external;
  external_ = pieces ? ExternalMemory::any : ExternalMemory::never;
  rx_interrupts_ = options.rx_interrupts;
  vlan_ = options.vlan;
  tx_slots_ = options.tx_descriptors;
  return make_pool(options.rx_descriptors, options.engines);
}

// An interface keeps the MTU that its administrator gave it, unless another one is asked for.
Result<void> KernelPort::choose_mtu(uint32_t asked) {
  const std::string interface = interface_->name();
  auto own = netdev_mtu(interface);
  if (own && asked != 0 && asked != *own && inherited_ == nullptr) {
    if (auto ok = set_netdev_mtu(interface, asked); !ok) own = std::unexpected(ok.error());
    if (own) own = asked;
  }
  if (!own) {
    return fail_port(own.error().code, fmt::format("cannot have mtu {}: interface {} says '{}'; choose a smaller mtu",
                                                   asked, interface, own.error().text));
  }
  return choose_path_mtu(asked != 0 ? asked : std::min(*own, kFullMtu));
}

Result<void> KernelPort::start() {
  const bool dormant = inherited_ != nullptr;
  message::Belongings* const inherited = std::exchange(inherited_, nullptr);
  const auto begun = dormant ? interface_->inherit(queues_, vlan_, pool_, *inherited, device_)
                             : interface_->start(queues_, vlan_, pool_);
  if (!begun) return fail_port(begun.error().code, begun.error().text);
  started_ = true;
  note(description(), NoteLevel::info);
  if (!dormant) refresh_link();
  return {};
}

void KernelPort::awaken() {
  if (auto ok = interface_->awaken(); !ok) note(fmt::format("port {}: {}", name_, ok.error().text));
  refresh_link();
  Port::awaken();
}

void KernelPort::stop() {
  if (!started_) return;
  started_ = false;
  link_up_.store(false, std::memory_order_relaxed);
  interface_->stop();
}

uint32_t KernelPort::read_window_packets() const { return kif::read_window_packets(max_frame(), mtu_bytes(path_mtu_)); }

std::string KernelPort::description() const {
  return fmt::format("port {} ({}) on interface {}: MTU {}, path MTU {}; {} queue(s); {}", name_, driver_,
                     interface_->name(), mtu_, mtu_bytes(path_mtu_), queues_, interface_->description());
}

}  // namespace uroce::glue
