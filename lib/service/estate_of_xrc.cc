#include "service/estate_of_xrc.h"

#include <cerrno>
#include <map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "control/qp.h"
#include "service/xrc_operations.h"

namespace uroce::service {
namespace {

using Holders = std::vector<std::pair<uint32_t, uint32_t>>;

Result<void> hold(ClientState& client, uint32_t id, Result<std::shared_ptr<control::ControlQp>> target) {
  if (!target) return std::unexpected(target.error());
  auto charge = client.charge(Resource::qp);
  if (!charge) return std::unexpected(charge.error());
  if (client.qps.add(id, std::move(*target), std::move(*charge))) return {};
  return fail(EPROTO, fmt::format("the estate's XRC target {} makes no sense", id));
}

}  // namespace

Result<XrcDomainRow> row_of(const control::XrcDomain& domain, uint32_t id, EstateWriter& estate) {
  XrcDomainRow row{.id = id, .number = domain.id(), .engine = domain.engine()};
  if (domain.keeps() == nullptr) return row;
  const auto file = estate.add(std::static_pointer_cast<message::Fd>(domain.keeps())->get());
  if (!file) return std::unexpected(file.error());
  row.has_file = true;
  row.file = *file;
  return row;
}

Result<std::shared_ptr<control::XrcDomain>> adopt_domain(const std::shared_ptr<control::Device>& device,
                                                         const XrcDomainRow& row, EstateReader& estate) {
  const control::XrcDomainState as{.id = row.number, .engine = row.engine};
  if (!row.has_file) return control::XrcDomain::adopt(device, as, std::nullopt, nullptr);
  const auto fd = estate.take_fd(row.file);
  if (!fd) return std::unexpected(fd.error());
  auto held = hold_file(*fd);
  if (!held) return std::unexpected(held.error());
  return control::XrcDomain::adopt(device, as, held->file, held->fd);
}

Result<void> bequeath_targets(std::span<ClientState* const> clients, EstateWriter& estate) {
  std::map<const control::ControlQp*, std::pair<std::shared_ptr<control::ControlQp>, Holders>> targets;
  for (ClientState* client : clients) {
    for (const auto& [id, qp] : client->qps.after(0, SIZE_MAX)) {
      if (qp->type() != QpType::xrc_target) continue;
      auto& [kept, holders] = targets[qp.get()];
      kept = qp;
      holders.emplace_back(client->id, id);
    }
  }
  for (auto& [target, held] : targets) {
    auto domain = row_of(*target->refs().xrc_domain, 0, estate);
    if (!domain) return std::unexpected(domain.error());
    estate.add(XrcTargetRow{.domain = *domain,
                            .qpn = target->qpn(),
                            .retransmission = target->init().retransmission,
                            .congestion_control = target->init().congestion_control,
                            .holders = std::move(held.second),
                            .snapshot = target->snapshot(estate.versions().snapshot)});
  }
  return {};
}

Result<void> inherit_target(EstateReader& estate, const std::function<ClientState*(uint32_t)>& find) {
  const auto row = estate.take<XrcTargetRow>();
  if (!row) return std::unexpected(row.error());
  std::shared_ptr<control::XrcDomain> domain;
  for (const auto& [number, id] : row->holders) {
    ClientState* client = find(number);
    if (client == nullptr || client->session == nullptr) continue;
    if (domain != nullptr) {
      if (auto held = hold(*client, id, client->session->open_xrc_target(domain, row->qpn)); !held) return held;
      continue;
    }
    auto adopted = adopt_domain(client->session->device(), row->domain, estate);
    if (!adopted) return std::unexpected(adopted.error());
    domain = std::move(*adopted);
    const control::QpIdentity as{.qpn = row->qpn, .on_large_doorbells = false, .groups = {}};
    const QpInit init{.retransmission = row->retransmission, .congestion_control = row->congestion_control};
    auto target = client->session->create_xrc_target(domain, init, &as);
    if (!target) return std::unexpected(target.error());
    if (auto gone_on = (*target)->adopt(row->snapshot); !gone_on) return gone_on;
    if (auto held = hold(*client, id, std::move(target)); !held) return held;
  }
  return {};
}

}  // namespace uroce::service
