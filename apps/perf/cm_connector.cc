#include "perf/cm_connector.h"

#include <fmt/format.h>

#include <cerrno>
#include <chrono>
#include <utility>

namespace uroce::perf {
namespace {

constexpr std::chrono::seconds kResolve{3};
/// The QP's index in the private data of a request, big-endian.
constexpr std::size_t kIndexBytes = 4;

std::vector<std::byte> data_of(uint32_t index) {
  std::vector<std::byte> data;
  for (int shift = 24; shift >= 0; shift -= 8) data.push_back(static_cast<std::byte>(index >> shift));
  return data;
}

std::optional<uint32_t> index_in(std::span<const std::byte> data) {
  if (data.size() < kIndexBytes) return std::nullopt;
  uint32_t index = 0;
  for (const std::byte byte : data.first(kIndexBytes)) index = index << 8 | std::to_integer<uint32_t>(byte);
  return index;
}

}  // namespace

Result<std::unique_ptr<CmConnector>> CmConnector::make(ConnectionManager manager) {
  auto channel = manager.create_channel();
  if (!channel) return std::unexpected(channel.error());
  return std::unique_ptr<CmConnector>(new CmConnector(std::move(manager), std::move(*channel)));
}

Result<std::unique_ptr<CmConnector>> CmConnector::listen(ConnectionManager manager, const Gid& local) {
  auto made = make(std::move(manager));
  if (!made) return made;
  CmConnector& connector = **made;
  auto id = connector.manager_.create_id(connector.channel_, PortSpace::tcp, QpType::rc);
  if (!id) return std::unexpected(id.error());
  if (auto bound = id->bind({local, 0}); !bound) return std::unexpected(bound.error());
  if (auto listens = id->listen(0); !listens) return std::unexpected(listens.error());
  auto info = id->info();
  if (!info) return std::unexpected(info.error());
  connector.port_ = info->local.port;
  connector.listener_ = std::move(*id);
  return made;
}

Result<void> CmConnector::begin(std::span<QueuePair> qps, const Gid& local, const CmAddress& server,
                                const CmParam& terms, Adjust adjust) {
  qps_ = qps;
  terms_ = terms;
  adjust_ = std::move(adjust);
  taken_.assign(qps.size(), false);
  if (listener_) return {};
  for (uint32_t index = 0; index < qps.size(); ++index) {
    auto id = manager_.create_id(channel_, PortSpace::tcp, QpType::rc);
    if (!id) return std::unexpected(id.error());
    if (auto asked = id->resolve_addr(CmAddress{local, 0}, server, kResolve); !asked) return asked;
    const uint32_t number = id->number();
    connections_.emplace(number, Connection{std::move(*id), index});
  }
  return {};
}

Result<bool> CmConnector::step() {
  if (qps_.empty()) return false;
  while (established_ < qps_.size()) {
    const auto event = channel_.take();
    if (!event) return false;
    if (auto handled = handle(*event); !handled) return std::unexpected(handled.error());
  }
  return true;
}

Result<void> CmConnector::handle(const CmEvent& event) {
  if (event.type == CmEventType::connect_request) return accept(event);
  const auto found = connections_.find(event.id);
  if (found == connections_.end()) return {};
  Connection& connection = found->second;
  switch (event.type) {
    case CmEventType::addr_resolved: return connection.id.resolve_route(kResolve);
    case CmEventType::route_resolved: return connect(event);
    case CmEventType::connect_response:
      if (auto up = bring_up(connection.id, qps_[connection.index]); !up) return up;
      if (auto sent = connection.id.establish(); !sent) return sent;
      [[fallthrough]];
    case CmEventType::established:
      if (!std::exchange(connection.established, true)) ++established_;
      return {};
    case CmEventType::rejected:
      return fail(ECONNREFUSED, fmt::format("rdma_cm: the other side rejected the connection of QP {} with reason {}",
                                            connection.index, event.status));
    case CmEventType::disconnected:
      return fail(ECONNRESET, fmt::format("rdma_cm: the other side ended the connection of QP {}; see its own output",
                                          connection.index));
    case CmEventType::timewait_exit: return {};
    default:
      return fail(EHOSTUNREACH,
                  fmt::format("rdma_cm: QP {} gets no connection (event {}, status {}); is the other side's address "
                              "reachable from this device?",
                              connection.index, static_cast<int>(event.type), event.status));
  }
}

Result<void> CmConnector::connect(const CmEvent& event) {
  Connection& connection = connections_.at(event.id);
  CmParam terms = terms_;
  terms.private_data = data_of(connection.index);
  terms.qpn = qps_[connection.index].qpn();
  return connection.id.connect(terms);
}

// A stranger's request is rejected: its index, or a second one with the same index, is none of the peer's.
Result<void> CmConnector::accept(const CmEvent& event) {
  auto id = manager_.adopt(event);
  if (!id) return std::unexpected(id.error());
  const auto index = index_in(event.param.private_data);
  if (!index || *index >= qps_.size() || taken_[*index]) return id->reject({});
  taken_[*index] = true;
  QueuePair& qp = qps_[*index];
  if (auto up = bring_up(*id, qp); !up) return up;
  CmParam terms = terms_;
  terms.qpn = qp.qpn();
  if (auto accepted = id->accept(terms); !accepted) return accepted;
  connections_.emplace(event.id, Connection{std::move(*id), *index});
  return {};
}

Result<void> CmConnector::bring_up(const CmId& id, QueuePair& qp) {
  for (const QpState state : {QpState::init, QpState::rtr, QpState::rts}) {
    auto step = id.qp_attr(state);
    if (!step) return std::unexpected(step.error());
    adjust_(step->first);
    if (auto moved = qp.modify(step->first, step->second); !moved) return moved;
  }
  return {};
}

}  // namespace uroce::perf
