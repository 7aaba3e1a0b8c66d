#include "record/script_settings.h"

#include <iterator>

#include <fmt/format.h>

#include "record/script_names.h"
#include "settings/names.h"

namespace uroce::record {
namespace {

// TestSrq's.
constexpr uint32_t kMostSrqSges = 4;

std::string access_text(AccessFlags access) {
  std::string text;
  for (const auto& [word, flag] : names::kAccessNames) {
    if (access.has(flag)) text += fmt::format("{}{}", text.empty() ? "" : ",", word);
  }
  return text.empty() ? "none" : text;
}

CongestionAlgorithm algorithm_of(const EngineRecord& engine, const QpRecord& qp) {
  return qp.congestion == CongestionAlgorithm::device_default ? engine.settings.congestion.algorithm : qp.congestion;
}

/// Has a parameter that a script cannot set another value than usual?
bool is_tuned(const CongestionSettings& now) {
  const DcqcnSettings dcqcn;
  const SwiftSettings swift;
  const auto differs = [](const auto& a, const auto& b, auto... members) {
    return ((a.*members != b.*members) || ...);
  };
  using D = DcqcnSettings;
  using S = SwiftSettings;
  return differs(now.dcqcn, dcqcn, &D::gain, &D::alpha_timer_us, &D::increase_timer_us, &D::byte_counter_kib,
                 &D::fast_recovery, &D::additive_mbps, &D::hyper_mbps, &D::min_rate_mbps) ||
         differs(now.swift, swift, &S::base_target_us, &S::flow_scaling_us, &S::flow_scaling_min, &S::flow_scaling_max,
                 &S::additive_increase, &S::beta, &S::max_decrease, &S::min_window, &S::reset_after_timeouts);
}

}  // namespace

void ScriptSettings::attach(const QpRecord& qp, const SrqRecord* srq) {
  qp_ = qp;
  if (srq != nullptr) srq_ = *srq;
}

void ScriptSettings::modify(const ModifyRecord& modify) {
  const auto set = [&](QpAttrBit bit, auto QpAttr::* member) {
    if (modify.mask.has(bit)) attr_.*member = modify.attr.*member;
  };
  mask_ |= modify.mask;
  set(QpAttrBit::access_flags, &QpAttr::access);
  set(QpAttrBit::path_mtu, &QpAttr::path_mtu);
  set(QpAttrBit::rq_psn, &QpAttr::rq_psn);
  set(QpAttrBit::sq_psn, &QpAttr::sq_psn);
  set(QpAttrBit::timeout, &QpAttr::timeout);
  set(QpAttrBit::retry_cnt, &QpAttr::retry_cnt);
  set(QpAttrBit::rnr_retry, &QpAttr::rnr_retry);
  set(QpAttrBit::min_rnr_timer, &QpAttr::min_rnr_timer);
  set(QpAttrBit::max_rd_atomic, &QpAttr::max_rd_atomic);
  set(QpAttrBit::max_dest_rd_atomic, &QpAttr::max_dest_rd_atomic);
  set(QpAttrBit::rate_limit, &QpAttr::rate_limit);
  if (modify.has_route) route_ = modify.route;
  loopback_ |= modify.loopback;
}

std::string ScriptSettings::lines(Nanos start) const {
  std::string text = fmt::format("set polls=named clock={} state=init", start.count());
  const auto out = std::back_inserter(text);
  if (qp_.type == QpType::uc) fmt::format_to(out, " type=uc");
  if (route_ && !route_->dgid.is_ipv4()) fmt::format_to(out, " ip=6");
  if (route_ && route_->traffic_class != 0) fmt::format_to(out, " tos={:#x}", route_->traffic_class);
  if (loopback_) fmt::format_to(out, " loopback=1");
  if (engine_.pkey != 0xffff) fmt::format_to(out, " pkey={:#x}", engine_.pkey);
  fmt::format_to(out, "\nset mtu={} psn={} peer_psn={} timeout={} retry_cnt={} rnr_retry={} min_rnr={}",
                 mtu_bytes(attr_.path_mtu), attr_.sq_psn, attr_.rq_psn, attr_.timeout, attr_.retry_cnt, attr_.rnr_retry,
                 attr_.min_rnr_timer);
  fmt::format_to(out, " max_rd={} max_dest_rd={} access={}\n", attr_.max_rd_atomic, attr_.max_dest_rd_atomic,
                 access_text(attr_.access));
  fmt::format_to(out, "set send_wr={} send_sge={} recv_sge={} inline={} signal_all={}", qp_.sq.entries,
                 qp_.cap.max_send_sge, qp_.cap.max_recv_sge, qp_.cap.max_inline_data, qp_.signal_all ? 1 : 0);
  if (qp_.rq.entries != 0) fmt::format_to(out, " recv_wr={}", qp_.rq.entries);
  if (srq_) fmt::format_to(out, " srq={}", srq_->ring.entries);
  const Retransmission how =
      qp_.retransmission == Retransmission::device_default ? engine_.settings.retransmission : qp_.retransmission;
  const auto& congestion = engine_.settings.congestion;
  fmt::format_to(out, "\nset window={} parking={} retransmission={} congestion={}", engine_.window_packets,
                 engine_.settings.parking_frames, settings::name_in(settings::kRetransmissionNames, how),
                 settings::name_in(settings::kCongestionNames, algorithm_of(engine_, qp_)));
  if (congestion.plb_rounds != 0) fmt::format_to(out, " plb_rounds={}", congestion.plb_rounds);
  fmt::format_to(out, " line_rate={} cnp_interval={} peer_delay={} read_window={}\n", congestion.dcqcn.line_rate_mbps,
                 congestion.dcqcn.cnp_interval_us, engine_.peer_delay.count(), engine_.read_window_packets);
  return text;
}

std::vector<std::string> ScriptSettings::left_out() const {
  std::vector<std::string> left;
  const CongestionSettings& now = engine_.settings.congestion;
  const bool controlled = algorithm_of(engine_, qp_) != CongestionAlgorithm::none;
  if (controlled && is_tuned(now)) left.emplace_back("parameters of congestion control other than the line rate");
  if (mask_.has(QpAttrBit::rate_limit) && attr_.rate_limit != 0) left.emplace_back("the rate limit");
  if (srq_ && srq_->max_sge > kMostSrqSges) left.emplace_back("a shared receive queue of more entries per receive");
  return left;
}

}  // namespace uroce::record
