#include "pmd_glue/raw_ports.h"

#include <fmt/format.h>
#include <rte_ethdev.h>

#include <cerrno>
#include <cstring>
#include <thread>

#include "base/bytes.h"
#include "pmd_glue/ethdev_port.h"
#include "pmd_glue/fault_guard.h"
#include "pmd_glue/interface_port.h"
#include "wire/ethernet.h"
#include "wire/headers.h"

namespace uroce::glue {

namespace {

constexpr Nanos kStopInterval = std::chrono::milliseconds(5);
constexpr std::size_t kTypeOffset = 12;

}  // namespace

Result<std::unique_ptr<RawPorts>> RawPorts::open(const std::vector<std::string>& eal_args, const RawOptions& options) {
  auto eal = Eal::start(eal_args);
  if (!eal) return std::unexpected(eal.error());
  std::unique_ptr<RawPorts> ports(new RawPorts(options, std::move(*eal)));
  if (auto ok = ports->start(); !ok) return std::unexpected(ok.error());
  if (auto ok = ports->wait_for_links(); !ok) return std::unexpected(ok.error());
  return ports;
}

RawPorts::~RawPorts() {
  for (const auto& port : ports_) port->close();
}

Result<void> RawPorts::start() {
  if (options_.back_to_back) {
    auto pair = RingPair::make(1, options_.tx_descriptors);
    if (!pair) return std::unexpected(pair.error());
    rings_ = std::move(*pair);
  }
  PortOptions port_options;
  port_options.mtu = options_.mtu;
  port_options.rx_descriptors = static_cast<uint16_t>(options_.rx_descriptors);
  port_options.tx_descriptors = static_cast<uint16_t>(options_.tx_descriptors);
  const auto next = [](uint64_t id) { return rte_eth_find_next_owned_by(static_cast<uint16_t>(id), 0); };
  for (uint64_t id = next(0); id < RTE_MAX_ETHPORTS; id = next(id + 1)) {
    auto port = EthdevPort::open(static_cast<uint16_t>(id), port_options);
    if (!port) return std::unexpected(port.error());
    ports_.push_back(std::move(*port));
  }
  for (uint16_t number = 0; const KernelInterface& interface : eal_->interfaces()) {
    auto port = open_interface_port(interface, number++, port_options);
    if (!port) return std::unexpected(port.error());
    ports_.push_back(std::move(*port));
  }
  const std::size_t needed = options_.role == RawRole::both ? 2 : 1;
  if (ports_.size() < needed) {
    return fail(ENODEV,
                fmt::format("a test of raw frames needs {} port(s), but EAL finds {}; name them with --vdev or -a",
                            needed, ports_.size()));
  }
  if (options_.frame_bytes < kRawHeader || options_.frame_bytes > first().max_frame()) {
    return fail(
        EINVAL,
        fmt::format("port {1} cannot carry frames of {0} bytes; its range is {2} to {3}; set another size or mtu",
                    options_.frame_bytes, first().name(), kRawHeader, first().max_frame()));
  }
  for (const auto& port : ports_) {
    if (port->needs_guard()) install_fault_guard();
    if (auto ok = port->start(); !ok) return ok;
  }
  return {};
}

Result<void> RawPorts::wait_for_links() {
  const Nanos until = now() + options_.timeout;
  for (const auto& port : ports_) {
    Nanos next_try = now() + Port::kReconnectInterval;
    while (!port->link_up()) {
      if (now() > until) {
        return fail(ETIMEDOUT, fmt::format("port {} was down for {:.0f} s; is the other end there?", port->name(),
                                           to_seconds(options_.timeout)));
      }
      if (ends(now())) return fail(EINTR, "interrupted before the link was up");
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      port->refresh_link();
      if (now() < next_try) continue;
      port->reconnect(0);
      next_try = now() + Port::kReconnectInterval;
    }
  }
  return {};
}

bool RawPorts::ends(Nanos now) {
  if (!options_.stop || now < next_ask_) return false;
  next_ask_ = now + kStopInterval;
  return options_.stop();
}

uint16_t receive_burst(const Port& port, std::span<rte_mbuf*> mbufs) {
  volatile uint16_t received = 0;
  const auto take = [&] { received = port.receive(0, mbufs); };
  if (!port.needs_guard()) {
    take();
  } else if (!guarded(take)) {
    return 0;
  }
  return received;
}

RawHeaders::RawHeaders(const Port& port, uint32_t frame_bytes) : frame_bytes_(frame_bytes) {
  // Nobody's Ethernet address: no host's kernel takes the frames.
  constexpr EthAddr kNobody{{0x02, 1, 2, 3, 4, 5}};
  if (port.is_kernel_interface()) {
    // Addresses for documentation (RFC 5737).
    const wire::Route route{.src_mac = port.mac(),
                            .dst_mac = kNobody,
                            .sgid = Gid::from_ipv4(0xc0000201),
                            .dgid = Gid::from_ipv4(0xc0000202)};
    datagram_ = wire::make_template(route);
    return;
  }
  std::memcpy(first_.data(), kNobody.bytes.data(), kNobody.bytes.size());
  std::memcpy(first_.data() + kNobody.bytes.size(), port.mac().bytes.data(), port.mac().bytes.size());
  store_be16(first_.data() + kTypeOffset, kRawEtherType);
}

void RawHeaders::store(std::byte* frame) {
  std::memcpy(frame, first_.data(), first_.size());
  if (datagram_) wire::write_l2_to_l4(frame, *datagram_, wire::kUdpPort, frame_bytes_ - datagram_->length, id_++);
}

bool is_raw_frame(std::span<const std::byte> frame) {
  if (frame.size() < kRawHeader) return false;
  const uint16_t type = load_be16(frame.data() + kTypeOffset);
  if (type == kRawEtherType) return true;
  constexpr std::size_t kUdp = wire::kEthernetBytes + wire::kIpv4Bytes;
  return type == wire::kEthertypeIpv4 && load_be16(frame.data() + kUdp) == wire::kUdpPort &&
         load_be16(frame.data() + kUdp + 2) == wire::kUdpPort;
}

}  // namespace uroce::glue
