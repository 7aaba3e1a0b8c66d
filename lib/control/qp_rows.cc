#include "control/qp_rows.h"

#include <algorithm>
#include <array>
#include <optional>

#include <fmt/format.h>

#include "base/wr_opcodes.h"
#include "control/cq.h"
#include "control/device.h"
#include "control/device_session.h"
#include "control/qp.h"
#include "control/region.h"
#include "control/srq.h"
#include "settings/names.h"
#include "transport/qp/state.h"

namespace uroce::control {
namespace {

/// An engine's answer about one queue pair.
struct Seen {
  QpAttr attr;
  transport::QpTransportStatus status;
  std::optional<Error> error;  ///< it gave none
  bool done = false;
};

void describe_objects(const ControlQp::Refs& refs, QpRow& row) {
  row.emplace_back("pd", std::to_string(refs.pd->id()));
  if (refs.send_cq != nullptr) row.emplace_back("send_cq", std::to_string(refs.send_cq->id()));
  if (refs.recv_cq != nullptr) row.emplace_back("recv_cq", std::to_string(refs.recv_cq->id()));
  if (refs.srq != nullptr) row.emplace_back("srq", std::to_string(refs.srq->id()));
}

void describe_retries(const transport::QpTransportStatus& status, QpRow& row) {
  row.emplace_back("in_flight", std::to_string(status.in_flight));
  row.emplace_back("retries_left", std::to_string(status.retries_left));
  row.emplace_back("rnr_retries_left", std::to_string(status.rnr_retries_left));
  const bool runs = status.timer != kNever;
  row.emplace_back("timer_us", runs ? std::to_string(status.timer.count() / 1000) : "");
}

void describe_transport(const transport::QpTransportStatus& status, QpRow& row) {
  const auto& again = status.retransmitted;
  row.emplace_back("recovery", settings::name(status.recovery));
  row.emplace_back("srtt_us", fmt::format("{:.1f}", static_cast<double>(status.srtt.count()) / 1e3));
  row.emplace_back("resent_fast", std::to_string(again.fast));
  row.emplace_back("resent_probe", std::to_string(again.probe));
  row.emplace_back("resent_timeout", std::to_string(again.timeout));
  row.emplace_back("resent_nak", std::to_string(again.nak));
  row.emplace_back("parked", std::to_string(status.parked));
  row.emplace_back("congestion", settings::name(status.congestion));
  row.emplace_back("rate_mbps", status.rate_bps == 0 ? "line" : std::to_string(status.rate_bps / 1'000'000));
  row.emplace_back("window", std::to_string(status.window));
  row.emplace_back("cnps_sent", std::to_string(status.cnps_sent));
  row.emplace_back("cnps_received", std::to_string(status.cnps_received));
  row.emplace_back("path_changes", std::to_string(status.path_changes));
}

QpRow row_of(const ControlQp& qp, const Seen& seen, bool psns) {
  QpRow row = {{"qpn", fmt::format("{:#08x}", qp.qpn())},
               {"type", std::string(transport::name(qp.type()))},
               {"engine", std::to_string(qp.engine())}};
  if (seen.error) {
    row.emplace_back("state", seen.error->text);
    return row;
  }
  const QpAttr& attr = seen.attr;
  row.emplace_back("state", transport::name(attr.state));
  row.emplace_back("dest_qpn", fmt::format("{:#08x}", attr.dest_qpn));
  std::string gid;
  for (std::size_t i = 0; i < attr.av.dgid.bytes.size(); ++i) {
    gid += fmt::format("{}{:02x}", i != 0 && i % 2 == 0 ? ":" : "", attr.av.dgid.bytes[i]);
  }
  row.emplace_back("dgid", std::move(gid));
  if (psns) {
    row.emplace_back("sq_psn", std::to_string(attr.sq_psn));
    row.emplace_back("rq_psn", std::to_string(attr.rq_psn));
  }
  row.emplace_back("path_mtu", std::to_string(mtu_bytes(attr.path_mtu)));
  row.emplace_back("sends_posted", std::to_string(seen.status.sends_posted));
  row.emplace_back("recvs_posted", std::to_string(seen.status.recvs_posted));
  if (is_reliable(qp.type())) {
    describe_retries(seen.status, row);
    describe_transport(seen.status, row);
  }
  describe_objects(qp.refs(), row);
  return row;
}

/// One visit to each engine that has one of them.
void look_at(std::span<const ControlQp* const> qps, std::span<Seen> seen) {
  Device& device = *qps[0]->session()->device();
  for (std::size_t first = 0; first < qps.size(); ++first) {
    if (seen[first].done) continue;
    const uint32_t engine = qps[first]->engine();
    const auto each = [&](const auto& act) {
      for (std::size_t i = first; i < qps.size(); ++i) {
        if (qps[i]->engine() == engine) act(*qps[i], seen[i]);
      }
    };
    auto visited = device.runner().visit(engine, [&](transport::Engine& host) {
      each([&host](const ControlQp& qp, Seen& one) { qp.look(host, one.attr, one.status); });
    });
    each([&visited](const ControlQp&, Seen& one) {
      one.done = true;
      if (!visited) one.error = visited.error();
    });
  }
}

}  // namespace

std::vector<QpRow> rows_of(std::span<const ControlQp* const> qps, bool psns) {
  std::vector<QpRow> rows;
  rows.reserve(qps.size());
  while (!qps.empty()) {
    const auto piece = qps.first(std::min(kQpsPerVisit, qps.size()));
    std::array<Seen, kQpsPerVisit> seen{};
    look_at(piece, std::span(seen).first(piece.size()));
    for (std::size_t i = 0; i < piece.size(); ++i) rows.push_back(row_of(*piece[i], seen[i], psns));
    qps = qps.subspan(piece.size());
  }
  return rows;
}

}  // namespace uroce::control
