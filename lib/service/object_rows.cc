#include "service/object_rows.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "control/address_handle.h"
#include "control/cq.h"
#include "control/cq_channel.h"
#include "control/flow.h"
#include "control/qp.h"
#include "control/qp_rows.h"
#include "control/region.h"
#include "control/srq.h"
#include "control/window.h"
#include "net/address.h"

namespace uroce::service {
namespace {

using Values = std::vector<std::pair<std::string, std::string>>;

/// A part of a client's objects of one kind.
struct Part {
  const ClientState& client;
  uint32_t after = 0;
  std::size_t most = 0;
  const Sight& sight;
  std::vector<message::ObjectRow> rows{};

  void add(uint32_t id, Values values) { rows.push_back({.client = client.id, .id = id, .values = std::move(values)}); }
  /// Adds what `describe` says of each object in the table.
  template <class T>
  void add_all(const Handles<T>& table, Values (*describe)(uint32_t id, const std::shared_ptr<T>&, const Sight&)) {
    for (const auto& [id, object] : table.after(after, most)) add(id, describe(id, object, sight));
  }
};

/// Objects that use this one. Its handle and the caller do as well.
std::string users_of(const auto& object) { return std::to_string(std::max(object.use_count() - 2, 0L)); }

/// A key is enough to forge a frame that writes memory.
void add_key(Values& values, uint32_t key, const Sight& sight) {
  if (sight.everything()) values.emplace_back("key", fmt::format("{:#010x}", key));
}

Values describe_domain(uint32_t /*id*/, const std::shared_ptr<control::Pd>& pd, const Sight& /*sight*/) {
  return {{"pd", std::to_string(pd->id())}, {"users", users_of(pd)}};
}

Values describe_region(uint32_t id, const std::shared_ptr<ClientRegion>& region, const Sight& sight) {
  Values values{{"mr", std::to_string(id)}};
  add_key(values, region->key, sight);
  values.emplace_back("pd", std::to_string(region->pd));
  values.emplace_back("address", fmt::format("{:#x}", region->address));
  values.emplace_back("length", std::to_string(region->length));
  values.emplace_back("access", fmt::format("{:#x}", region->access.bits()));
  values.emplace_back("mapped", std::to_string(region->mapping != nullptr ? region->mapping->bytes() : 0));
  return values;
}

Values describe_window(uint32_t id, const std::shared_ptr<control::Window>& window, const Sight& sight) {
  Values values{{"mw", std::to_string(id)}};
  add_key(values, window->key(), sight);
  values.emplace_back("pd", std::to_string(window->pd()->id()));
  values.emplace_back("type", std::to_string(static_cast<unsigned>(window->type())));
  return values;
}

Values describe_queue(uint32_t /*id*/, const std::shared_ptr<control::Cq>& cq, const Sight& /*sight*/) {
  return {{"cq", std::to_string(cq->id())},
          {"entries", std::to_string(cq->entries())},
          {"unread", std::to_string(cq->unread())},
          {"users", users_of(cq)},
          {"channel", cq->channel() != nullptr ? "yes" : "no"}};
}

Values describe_receives(uint32_t /*id*/, const std::shared_ptr<control::ControlSrq>& srq, const Sight& /*sight*/) {
  return {{"srq", std::to_string(srq->id())},
          {"pd", std::to_string(srq->pd()->id())},
          {"entries", std::to_string(srq->max_wr())},
          {"posted", std::to_string(srq->posted())},
          {"users", users_of(srq)},
          {"xrc_domain", srq->is_xrc() ? std::to_string(srq->xrc().domain->id()) : ""}};
}

Values describe_destination(uint32_t /*id*/, const std::shared_ptr<control::AddressHandle>& handle,
                            const Sight& /*sight*/) {
  Values values{{"ah", std::to_string(handle->id())}, {"pd", std::to_string(handle->pd()->id())}};
  const auto to = handle->destination();
  values.emplace_back("remote", to ? net::to_text(to->dgid) : "");
  values.emplace_back("mac", to ? net::to_text(to->dst_mac.load()) : "");
  return values;
}

Values describe_xrc_domain(uint32_t /*id*/, const std::shared_ptr<ClientXrcDomain>& opened, const Sight& /*sight*/) {
  return {{"xrc_domain", std::to_string(opened->domain->id())},
          {"engine", std::to_string(opened->domain->engine())},
          {"file", opened->domain->keeps() != nullptr ? "yes" : "no"}};
}

Values describe_rule(uint32_t id, const std::shared_ptr<control::Flow>& flow, const Sight& /*sight*/) {
  const FlowCounters counts = flow->counters();
  const auto& qps = flow->table();
  return {{"flow", std::to_string(id)},
          {"priority", std::to_string(flow->rule().priority)},
          {"qpn", fmt::format("{:#08x}", qps.front()->qpn())},
          {"qps", std::to_string(qps.size())},
          {"packets", std::to_string(counts.packets)},
          {"bytes", std::to_string(counts.bytes)}};
}

/// Of the program, whose ids are on several devices.
void add_ids(Part& part) {
  const cm::Manager* const manager = part.client.server.connections();
  if (manager == nullptr || !part.client.stands_for_program()) return;
  for (cm::IdRow& row : manager->rows(part.client.id, part.after, part.most)) {
    part.add(row.id, {{"cm_id", std::to_string(row.id)},
                      {"device", std::move(row.device)},
                      {"state", std::move(row.state)},
                      {"space", fmt::format("{:#06x}", static_cast<unsigned>(row.space))},
                      {"local", std::move(row.local)},
                      {"remote", std::move(row.remote)}});
  }
}

void add_queue_pairs(Part& part) {
  const auto found = part.client.qps.after(part.after, part.most);
  std::vector<const control::ControlQp*> qps;
  for (const auto& [id, qp] : found) qps.push_back(qp.get());
  auto rows = control::rows_of(qps, part.sight.everything());
  for (std::size_t i = 0; i < found.size(); ++i) part.add(found[i].first, std::move(rows[i]));
}

}  // namespace

std::vector<message::ObjectRow> object_rows_of(const ClientState& client, message::Kind kind, uint32_t after,
                                               std::size_t most, const Sight& sight) {
  Part part{.client = client, .after = after, .most = most, .sight = sight};
  using message::Kind;
  switch (kind) {
    case Kind::pd: part.add_all(client.pds, describe_domain); break;
    case Kind::mr: part.add_all(client.regions, describe_region); break;
    case Kind::window: part.add_all(client.windows, describe_window); break;
    case Kind::cq: part.add_all(client.cqs, describe_queue); break;
    case Kind::srq: part.add_all(client.srqs, describe_receives); break;
    case Kind::address_handle: part.add_all(client.address_handles, describe_destination); break;
    case Kind::xrc_domain: part.add_all(client.xrc_domains, describe_xrc_domain); break;
    case Kind::flow: part.add_all(client.flows, describe_rule); break;
    case Kind::cm_id: add_ids(part); break;
    case Kind::qp: add_queue_pairs(part); break;
    case Kind::channel: break;
  }
  return part.rows;
}

}  // namespace uroce::service
