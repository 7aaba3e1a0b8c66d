#include "pmd_glue/udp_port.h"

#include <fmt/format.h>
#include <net/if.h>
#include <rte_ethdev.h>

#include <algorithm>
#include <utility>

#include "net/address.h"
#include "pmd_glue/frame_size.h"
#include "pmd_glue/kif/socket.h"
#include "pmd_glue/netdev.h"
#include "pmd_glue/notes.h"

namespace uroce::glue {

namespace {

std::string receiver_name(const std::string& device) { return fmt::format("{} UDP socket", device); }
std::string sender_name(const std::string& device, std::size_t number) {
  return fmt::format("{} UDP source {}", device, number);
}

}  // namespace

Result<std::unique_ptr<Port>> UdpPort::open(const KernelInterface& on, uint16_t number, const PortOptions& options) {
  std::unique_ptr<UdpPort> port(new UdpPort(static_cast<uint16_t>(RTE_MAX_ETHPORTS + number)));
  if (auto ok = port->set_up(on, options); !ok) return std::unexpected(ok.error());
  return port;
}

Result<void> UdpPort::set_up(const KernelInterface& on, const PortOptions& options) {
  name_ = on.port;
  driver_ = kUdpDriver;
  interface_ = on.interface;
  const std::string& interface = on.interface;
  const auto mac = netdev_mac(interface);
  if (!mac) {
    return fail_port(mac.error().code,
                     fmt::format("interface {}: {}; name one that `ip link` lists", interface, mac.error().text));
  }
  mac_ = *mac;
  index_ = if_nametoindex(interface.c_str());
  if (options.vlan != 0) {
    return fail_port(EINVAL, fmt::format("a UDP socket has no tags; name the interface of the VLAN instead ({}.{})",
                                         interface, options.vlan));
  }
  const auto asked = asked_mtu(options);
  if (!asked) return std::unexpected(asked.error());
  const auto own = netdev_mtu(interface);
  if (!own) return fail_port(own.error().code, own.error().text);
  if (*asked > *own) {
    return fail_port(EINVAL, fmt::format("cannot have mtu {}: interface {} has {}, and a port on a UDP socket does not "
                                         "change it; choose a smaller mtu",
                                         *asked, interface, *own));
  }
  if (auto ok = choose_path_mtu(*asked != 0 ? *asked : std::min(*own, kFullMtu)); !ok) return ok;
  take_heritage(options);
  rx_interrupts_ = options.rx_interrupts;
  tx_slots_ = options.tx_descriptors;
  return make_pool(options.rx_descriptors, options.engines);
}

Result<void> UdpPort::start() {
  const std::string interface = interface_.get();
  message::Belongings* const inherited = std::exchange(inherited_, nullptr);
  auto socket = inherited != nullptr ? udp::Socket::adopt(inherited->take(receiver_name(device_)), interface)
                                     : udp::Socket::open(interface);
  if (!socket) return fail_port(socket.error().code, socket.error().text);
  active_ = std::make_unique<Active>(interface, std::move(*socket), inherited_senders(inherited), pool_, mac_);
  started_ = true;
  note(description(), NoteLevel::info);
  if (inherited != nullptr) return {};
  if (auto ok = active_->readable.watch(active_->socket.fd()); !ok) return ok;
  refresh_link();
  return {};
}

std::vector<udp::Socket> UdpPort::inherited_senders(message::Belongings* belongings) const {
  std::vector<udp::Socket> out;
  for (std::size_t i = 0; belongings != nullptr && i < udp::kSourcePorts; ++i) {
    auto socket = udp::Socket::adopt(belongings->take(sender_name(device_, i)), interface_.get());
    if (socket) out.push_back(std::move(*socket));
  }
  return out;
}

bool UdpPort::has_lent(const message::Belongings& belongings, const std::string& device) {
  const std::string name = receiver_name(device);
  return std::ranges::any_of(belongings.list(), [&](const auto& one) { return one.first == name; });
}

void UdpPort::lend(message::Belongings& belongings, const std::string& device) const {
  belongings.lend(receiver_name(device), active_->socket.fd());
  const auto& senders = active_->sources.sockets();
  for (std::size_t i = 0; i < senders.size(); ++i) belongings.lend(sender_name(device, i), senders[i].fd());
}

void UdpPort::awaken() {
  if (auto ok = active_->readable.watch(active_->socket.fd()); !ok)
    note(fmt::format("port {}: {}", name_, ok.error().text));
  refresh_link();
  Port::awaken();
}

void UdpPort::stop() {
  if (!started_) return;
  started_ = false;
  link_up_.store(false, std::memory_order_relaxed);
  active_.reset();
}

// A socket stays bound to the interface that it was opened for.
Result<void> UdpPort::renew_sockets() {
  const std::string interface = interface_.get();
  auto fresh = udp::Socket::open(interface);
  if (!fresh) return std::unexpected(fresh.error());
  auto sources = active_->sources.open_again(interface);
  if (!sources) return std::unexpected(sources.error());
  fresh->receive_groups(groups_);
  if (auto ok = active_->sources.replace_by(std::move(*sources), interface); !ok) return ok;
  if (auto ok = active_->socket.replace_by(std::move(*fresh), interface); !ok) return ok;
  return active_->readable.watch(active_->socket.fd());
}

bool UdpPort::follow() {
  const unsigned index = interface_.look(active_->socket.interface_index());
  if (index == 0) return false;
  if (index == active_->socket.interface_index()) return true;
  if (const auto renewed = renew_sockets(); !renewed) {
    if (!std::exchange(said_detached_, true))
      note(fmt::format("port {}: {}; it is down until that succeeds", name_, renewed.error().text));
    return false;
  }
  said_detached_ = false;
  index_.store(index, std::memory_order_relaxed);
  returns_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void UdpPort::refresh_link() {
  if (!started_) return;
  link_up_.store(follow() && netdev_running(interface_.get()).value_or(false), std::memory_order_relaxed);
}

void UdpPort::receive_group_addresses(std::span<const Gid> groups) {
  groups_.assign(groups.begin(), groups.end());
  if (!started_) return;
  const auto refused = active_->socket.receive_groups(groups);
  if (refused.empty() || std::exchange(said_refused_, true)) return;
  note(
      fmt::format("port {}: the kernel does not let a socket join {} and {} more groups; raise "
                  "net.ipv4.igmp_max_memberships, or give the program CAP_NET_RAW",
                  name_, net::to_text(*refused.begin()), refused.size() - 1));
}

uint32_t UdpPort::read_window_packets() const { return kif::read_window_packets(max_frame(), mtu_bytes(path_mtu_)); }

std::string UdpPort::description() const {
  return fmt::format("port {} ({}) on interface {}: MTU {}, path MTU {}; a UDP socket{}, up to {} KiB wait; {}", name_,
                     driver_, interface_.get(), mtu_, mtu_bytes(path_mtu_),
                     active_->socket.has_ipv6() ? "" : " (IPv4 alone)", active_->socket.receive_buffer() >> 10,
                     active_->sources.description());
}

std::vector<std::pair<std::string, uint64_t>> UdpPort::counters(uint16_t queue) const {
  if (queue != 0 || active_ == nullptr) return {};
  const kif::SendCounters& tx = active_->sender.counters();
  const udp::ReceiveCounters& rx = active_->receiver.counters();
  return {{"udp_tx_super_frames", tx.super_frames.get()},
          {"udp_tx_super_segments", tx.super_segments.get()},
          {"udp_tx_dropped", tx.dropped.get()},
          {"udp_tx_foreign", active_->sender.foreign().get()},
          {"udp_rx_super_frames", rx.super_frames.get()},
          {"udp_rx_super_segments", rx.super_segments.get()},
          {"udp_rx_bad_lengths", rx.bad_lengths.get()},
          {"udp_rx_no_headers", rx.no_headers.get()},
          {"udp_rx_unknown_ids", rx.unknown_ids.get()},
          {"udp_rx_buffers_missing", rx.buffers_missing.get()},
          {"udp_rx_lost", rx.lost.get()}};
}

}  // namespace uroce::glue
