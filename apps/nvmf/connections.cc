#include "nvmf/connections.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <expected>
#include <utility>

namespace uroce::nvmf {

using nvme::CmStatus;
using namespace std::chrono_literals;

namespace {

/// Looking for an event of the daemon costs a system call. Those of this process are also looked for before each rest.
constexpr Nanos kEventsEvery = 1ms;
constexpr uint8_t kReadsAtOnce = 16;

Result<CmAddress> address_of(const std::string& text, uint16_t port) {
  CmAddress address{.port = port};
  in_addr v4{};
  if (inet_pton(AF_INET, text.c_str(), &v4) == 1) {
    address.ip = Gid::from_ipv4(ntohl(v4.s_addr));
  } else if (inet_pton(AF_INET6, text.c_str(), address.ip.bytes.data()) != 1) {
    return fail(EINVAL, "cannot listen on " + text + ", which is not an IP address; write one like 192.0.2.1");
  }
  return address;
}

Result<std::vector<CmAddress>> addresses_of(const ListenSettings& settings) {
  if (settings.addresses.empty()) return std::vector{CmAddress{.port = settings.port}};
  std::vector<CmAddress> out;
  for (const std::string& text : settings.addresses) {
    const auto address = address_of(text, settings.port);
    if (!address) return std::unexpected(address.error());
    out.push_back(*address);
  }
  return out;
}

std::string text_of(const Gid& ip) {
  char text[INET6_ADDRSTRLEN] = "";
  const bool v4 = ip.is_ipv4();
  inet_ntop(v4 ? AF_INET : AF_INET6, ip.bytes.data() + (v4 ? 12 : 0), text, sizeof text);
  return text;
}

Portal portal_of(const CmAddress& local) {
  return {.address = text_of(local.ip), .ipv6 = !local.ip.is_ipv4(), .port = local.port};
}

/// A host asks for the target's timeout and retries in its REQ, and timeout 0 would wait for it for ever. Buffers are
/// held meanwhile, so a host that has gone silent loses its connection after 8 timeouts of 537 ms, 4.3 s.
void limit_patience(QpAttr& attributes) {
  constexpr uint8_t kMostTimeout = 17, kMostRnrRetries = 6;
  if (attributes.timeout == 0) attributes.timeout = kMostTimeout;
  attributes.timeout = std::min(attributes.timeout, kMostTimeout);
  attributes.rnr_retry = std::min(attributes.rnr_retry, kMostRnrRetries);
}

std::expected<nvme::CmRequest, CmStatus> request_of(std::span<const std::byte> data, uint8_t reads) {
  nvme::CmRequest request;
  if (data.size() < sizeof request) return std::unexpected(CmStatus::invalid_length);
  std::memcpy(&request, data.data(), sizeof request);
  if (request.format != 0) return std::unexpected(CmStatus::invalid_format);
  if (request.queue_id > kIoQueues) return std::unexpected(CmStatus::invalid_queue_id);
  if (request.host_send_size == 0 || request.host_send_size >= kQueueEntries) {
    return std::unexpected(CmStatus::invalid_send_size);
  }
  if (request.host_receive_size == 0) return std::unexpected(CmStatus::invalid_receive_size);
  // The target READs what a host writes.
  if (reads == 0) return std::unexpected(CmStatus::invalid_read_depth);
  return request;
}

void reject(CmId& id, CmStatus status) {
  const nvme::CmReject reason{.format = 0, .status = static_cast<uint16_t>(status)};
  (void)id.reject(std::as_bytes(std::span(&reason, 1)));
}

}  // namespace

Result<std::vector<Portal>> ListenSettings::portals() const {
  const auto listened = addresses_of(*this);
  if (!listened) return std::unexpected(listened.error());
  std::vector<Portal> out;
  for (const CmAddress& one : *listened) {
    const bool every = one.ip == Gid{} || one.ip == Gid::from_ipv4(INADDR_ANY);
    if (!every) out.push_back(portal_of(one));
  }
  return out;
}

Result<std::unique_ptr<Connections>> Connections::listen(Network& network, std::vector<Orders*> orders,
                                                         Reports& reports, const ListenSettings& settings) {
  const auto addresses = addresses_of(settings);
  if (!addresses) return std::unexpected(addresses.error());
  auto channel = network.connections().create_channel();
  if (!channel) return std::unexpected(channel.error());
  std::vector<CmId> listeners;
  for (const CmAddress& address : *addresses) {
    auto listener = network.connections().create_id(*channel, PortSpace::tcp, QpType::rc);
    if (!listener) return std::unexpected(listener.error());
    if (auto done = listener->bind(address); !done) return std::unexpected(done.error());
    if (auto done = listener->listen(128); !done) return std::unexpected(done.error());
    listeners.push_back(std::move(*listener));
  }
  return std::unique_ptr<Connections>(
      new Connections(network, std::move(orders), reports, settings, std::move(*channel), std::move(listeners)));
}

bool Connections::poll(Nanos now) {
  bool worked = reports_.waiting();
  if (worked) {
    for (const Report& report : reports_.take()) on_report(report);
  }
  if (now >= next_events_) {
    next_events_ = now + kEventsEvery;
    worked |= take_events();
  }
  return worked;
}

bool Connections::take_events() {
  bool taken = false;
  while (const auto event = channel_.take()) {
    handle(*event);
    taken = true;
  }
  return taken;
}

void Connections::close() {
  closing_ = true;
  for (auto& [number, one] : connections_) close(one);
}

void Connections::close(Connection& connection) {
  if (!std::exchange(connection.closing, true)) put(connection.reactor, Close{connection.id.number()});
}

// The first reactor looks at its orders before it rests.
void Connections::put(uint32_t reactor, Order order) {
  if (orders_[reactor]->put(std::move(order)) && reactor != 0) network_.wake(reactor);
}

void Connections::handle(const CmEvent& event) {
  if (event.type == CmEventType::connect_request) return on_request(event);
  if (std::ranges::find(listeners_, event.id, &CmId::number) != listeners_.end()) {
    lost_ |= event.type == CmEventType::device_removal;
    return;
  }
  if (event.type == CmEventType::established) return;
  // Each of the other events is the end of a connection.
  const auto found = connections_.find(event.id);
  if (found != connections_.end()) close(found->second);
}

void Connections::on_request(const CmEvent& event) {
  auto id = network_.connections().adopt(event);
  if (!id) return;
  const auto request = request_of(event.param.private_data, event.param.initiator_depth);
  if (!request) return reject(*id, request.error());
  if (closing_ || !hand_over(*id, event, *request)) reject(*id, CmStatus::no_resources);
}

/// On success the id has moved into the connection.
Result<void> Connections::hand_over(CmId& id, const CmEvent& event, const nvme::CmRequest& request) {
  const auto info = id.info();
  if (!info) return std::unexpected(info.error());
  const Gid host = info->dgid;  // where answers go; it writes the address in remote.ip itself
  const auto answer = admission_.admit(host);
  if (!answer.admitted) return fail(EAGAIN, "this host, or all hosts, have as many queues as they may");
  const uint32_t number = id.number();
  const auto entries = static_cast<uint16_t>(request.host_send_size + 1);
  Open order{
      .number = number,
      .device = info->device,
      .terms = {
          .queue_id = request.queue_id, .entries = entries, .portal = portal_of(info->local), .host = text_of(host)}};
  constexpr std::array kStates{QpState::init, QpState::rtr, QpState::rts};
  for (std::size_t step = 0; step < kStates.size(); ++step) {
    auto attributes = id.qp_attr(kStates[step]);
    if (!attributes) return std::unexpected(attributes.error());
    order.steps[step] = *attributes;
  }
  limit_patience(order.steps.back().first);
  if (answer.instead) evict(*answer.instead);
  const bool io = request.queue_id != 0;
  const auto reactor = io ? static_cast<uint32_t>(std::ranges::min_element(loads_) - loads_.begin()) : 0u;
  if (io) ++loads_[reactor];
  connections_.emplace(number, Connection{.id = std::move(id),
                                          .reactor = reactor,
                                          .io = io,
                                          .entries = entries,
                                          .reads = std::min(event.param.initiator_depth, kReadsAtOnce)});
  admission_.opened(number, host);
  put(reactor, std::move(order));
  return {};
}

void Connections::on_report(const Report& report) {
  const uint32_t number = std::visit([](const auto& one) { return one.number; }, report);
  const auto found = connections_.find(number);
  if (found == connections_.end()) return;
  Connection& connection = found->second;
  if (const auto* const opened = std::get_if<Opened>(&report)) {
    if (connection.closing || accept(connection, opened->qpn)) return;
    reject(connection.id, CmStatus::no_resources);
    return close(connection);
  }
  if (const auto* const connected = std::get_if<Connected>(&report)) {
    admission_.connected(number, connected->listed);
    // The host sends commands only after its RTU, which may be late or lost. Without it, the end of the connection
    // would be a REJ, which hosts do not expect later than at the start.
    (void)connection.id.notify_established();
    return;
  }
  if (std::holds_alternative<Failed>(report)) reject(connection.id, CmStatus::no_resources);
  admission_.ended(number);
  if (connection.io) --loads_[connection.reactor];
  connections_.erase(found);
}

void Connections::evict(uint32_t number) {
  admission_.evicted(number);
  put(connections_.at(number).reactor, Close{.number = number, .unless_connected = true});
}

Result<void> Connections::accept(Connection& connection, uint32_t qpn) {
  const nvme::CmAccept accept{.format = 0, .controller_receive_size = connection.entries, .reserved = {}};
  const auto* data = reinterpret_cast<const std::byte*>(&accept);
  return connection.id.accept(
      {.private_data = {data, data + sizeof accept}, .initiator_depth = connection.reads, .qpn = qpn});
}

}  // namespace uroce::nvmf
