#include "service/qp_step_text.h"

#include <fmt/format.h>

#include "net/address.h"
#include "service/duration_text.h"
#include "transport/loss/retry_budget.h"
#include "transport/qp/state.h"

namespace uroce::service {
namespace {

std::string step_text(const message::ModifyStep& step) {
  const QpAttr& attr = step.attr;
  const auto has = [&step](QpAttrBit bit) { return step.mask.has(bit); };
  std::string text(transport::name(attr.state));
  if (has(QpAttrBit::dest_qpn)) text += fmt::format(" to {:#x}", attr.dest_qpn);
  if (has(QpAttrBit::av)) text += fmt::format(" at {}", net::to_text(attr.av.dgid));
  if (has(QpAttrBit::path_mtu)) text += fmt::format(" with a path MTU of {} bytes", mtu_bytes(attr.path_mtu));
  if (has(QpAttrBit::timeout)) {
    text += attr.timeout == 0
                ? std::string(" without a timeout")
                : fmt::format(" with a timeout of {}", duration_text(transport::ack_timeout(attr.timeout)));
  }
  if (has(QpAttrBit::retry_cnt)) text += fmt::format(", retry_cnt {}", attr.retry_cnt);
  if (has(QpAttrBit::rnr_retry)) text += fmt::format(", rnr_retry {}", attr.rnr_retry);
  return text;
}

}  // namespace

std::string steps_text(std::span<const message::ModifyStep> steps) {
  std::string text;
  for (const message::ModifyStep& step : steps) {
    if (!step.mask.has(QpAttrBit::state)) continue;
    if (!text.empty()) text += ", ";
    text += step_text(step);
  }
  return text;
}

}  // namespace uroce::service
