#include "nvmf/connections.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <expected>

namespace uroce::nvmf {

using nvme::CmStatus;
using namespace std::chrono_literals;

namespace {

/// Looking for an event costs a system call.
constexpr Nanos kEventsEvery = 1ms, kCheckEvery = 100ms;
constexpr uint8_t kReadsAtOnce = 16;

Result<CmAddress> address_of(const ListenSettings& settings) {
  CmAddress address{.port = settings.port};
  if (settings.address.empty()) return address;
  in_addr v4{};
  if (inet_pton(AF_INET, settings.address.c_str(), &v4) == 1) {
    address.ip = Gid::from_ipv4(ntohl(v4.s_addr));
  } else if (inet_pton(AF_INET6, settings.address.c_str(), address.ip.bytes.data()) != 1) {
    return fail(EINVAL, "--listen " + settings.address + " is not an IP address; write one like 192.0.2.1");
  }
  return address;
}

Portal portal_of(const CmAddress& local) {
  char text[INET6_ADDRSTRLEN] = "";
  const bool v4 = local.ip.is_ipv4();
  inet_ntop(v4 ? AF_INET : AF_INET6, local.ip.bytes.data() + (v4 ? 12 : 0), text, sizeof text);
  return {.address = text, .ipv6 = !v4, .port = local.port};
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

Result<void> move_to(QueuePair& qp, const CmId& id, QpState state) {
  auto step = id.qp_attr(state);
  if (!step) return std::unexpected(step.error());
  return qp.modify(step->first, step->second);
}

}  // namespace

Result<std::unique_ptr<Connections>> Connections::listen(Network& network, const Shared& shared,
                                                         const ListenSettings& settings) {
  const auto address = address_of(settings);
  if (!address) return std::unexpected(address.error());
  auto channel = network.connections().create_channel();
  if (!channel) return std::unexpected(channel.error());
  auto listener = network.connections().create_id(*channel, PortSpace::tcp, QpType::rc);
  if (!listener) return std::unexpected(listener.error());
  if (auto done = listener->bind(*address); !done) return std::unexpected(done.error());
  if (auto done = listener->listen(128); !done) return std::unexpected(done.error());
  return std::unique_ptr<Connections>(
      new Connections(network, shared, settings, std::move(*channel), std::move(*listener)));
}

Connections::~Connections() { close(); }

bool Connections::poll(Nanos now) {
  bool worked = false;
  for (Connection& one : connections_) worked |= one.queue->poll(now);
  if (now >= next_events_) {
    next_events_ = now + kEventsEvery;
    while (const auto event = channel_.take()) handle(*event, now);
  }
  if (now >= next_check_) check(now);
  return worked;
}

void Connections::check(Nanos now) {
  next_check_ = now + kCheckEvery;
  for (Connection& one : connections_) one.queue->check(now);
  std::erase_if(connections_, [](const Connection& one) { return one.queue->finished(); });
}

void Connections::close() {
  closing_ = true;
  for (Connection& one : connections_) one.queue->close();
  next_check_ = {};
}

void Connections::handle(const CmEvent& event, Nanos now) {
  if (event.type == CmEventType::connect_request) return on_request(event, now);
  if (event.id == listener_.number()) {
    lost_ |= event.type == CmEventType::device_removal;
    return;
  }
  if (event.type == CmEventType::established) return;
  // Each of the other events is the end of a connection.
  for (Connection& one : connections_) {
    if (one.id.number() == event.id) one.queue->close();
  }
  next_check_ = {};
}

void Connections::on_request(const CmEvent& event, Nanos now) {
  auto id = network_.connections().adopt(event);
  if (!id) return;
  const auto request = request_of(event.param.private_data, event.param.initiator_depth);
  if (!request) return reject(*id, request.error());
  if (closing_ || connections_.size() >= settings_.max_queues || !accept(*id, event, *request, now)) {
    reject(*id, CmStatus::no_resources);
  }
}

Result<void> Connections::accept(CmId& id, const CmEvent& event, const nvme::CmRequest& request, Nanos now) {
  const auto info = id.info();
  if (!info) return std::unexpected(info.error());
  const auto found = device(info->device);
  if (!found) return std::unexpected(found.error());
  const Queue::Terms terms{
      .queue_id = request.queue_id, .entries = request.host_send_size + 1u, .portal = portal_of(info->local)};
  auto queue = Queue::create(**found, shared_, terms, now);
  if (!queue) return std::unexpected(queue.error());
  QueuePair& qp = (*queue)->qp();
  if (auto done = move_to(qp, id, QpState::init); !done) return done;
  if (auto done = (*queue)->post_receives(); !done) return done;
  if (auto done = move_to(qp, id, QpState::rtr); !done) return done;
  if (auto done = move_to(qp, id, QpState::rts); !done) return done;

  const nvme::CmAccept accept{
      .format = 0, .controller_receive_size = static_cast<uint16_t>(terms.entries), .reserved = {}};
  const auto* data = reinterpret_cast<const std::byte*>(&accept);
  auto done = id.accept({.private_data = {data, data + sizeof accept},
                         .initiator_depth = std::min(event.param.initiator_depth, kReadsAtOnce),
                         .qpn = qp.qpn()});
  if (done) connections_.push_back({std::move(id), std::move(*queue)});
  return done;
}

Result<Device*> Connections::device(const std::string& name) {
  auto& known = devices_[name];
  if (known != nullptr) return known.get();
  auto context = network_.device(name);
  if (!context) return std::unexpected(context.error());
  auto pd = context->create_pd();
  if (!pd) return std::unexpected(pd.error());
  const auto memory = shared_.pool.memory();
  auto region = pd->register_memory(memory.data(), memory.size(), Access::local_write);
  if (!region) return std::unexpected(region.error());
  known = std::make_unique<Device>(Device{std::move(*context), std::move(*pd), std::move(*region)});
  return known.get();
}

}  // namespace uroce::nvmf
