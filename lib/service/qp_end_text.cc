#include "service/qp_end_text.h"

#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>

#include "net/address.h"

namespace uroce::service {
namespace {

using transport::QpEnd;

struct Meaning {
  WcStatus status;
  std::string_view name;
  std::string_view text;
};

constexpr std::array kMeanings{
    Meaning{WcStatus::local_length_error, "local_length_error", "a message was longer than the receive for it"},
    Meaning{WcStatus::local_qp_operation_error, "local_qp_operation_error", "a work request makes no sense"},
    Meaning{WcStatus::local_protection_error, "local_protection_error",
            "a work request names memory that it may not use (key, address, length or access)"},
    Meaning{WcStatus::mw_bind_error, "mw_bind_error", "a memory window could not be bound"},
    Meaning{WcStatus::bad_response, "bad_response", "the peer sent a response that fits no request"},
    Meaning{WcStatus::local_access_error, "local_access_error", "a message came for memory that it may not write"},
    Meaning{
        WcStatus::remote_invalid_request, "remote_invalid_request",
        "the peer refused a request: it is longer than the receive there, or of a kind that the peer does not take"},
    Meaning{WcStatus::remote_access_error, "remote_access_error",
            "the peer refused a key, an address, a length or a right; its region may be gone"},
    Meaning{WcStatus::remote_operation_error, "remote_operation_error", "the peer could not carry out a request"},
    Meaning{WcStatus::retry_exceeded, "retry_exceeded",
            "no acknowledgement came within timeout and retry_cnt; see that the peer runs and that packets of the path "
            "MTU reach it (uroce ping ADDRESS)"},
    Meaning{WcStatus::rnr_retry_exceeded, "rnr_retry_exceeded",
            "the peer had no receive posted within min_rnr_timer and rnr_retry"},
};

std::string meaning_of(WcStatus status) {
  const auto found = std::ranges::find(kMeanings, status, &Meaning::status);
  if (found == kMeanings.end()) return fmt::format("with status {}", static_cast<int>(status));
  return fmt::format("with {} (status {}): {}", found->name, static_cast<int>(status), found->text);
}

std::string cause_of(const QpEnd& end) {
  switch (end.cause) {
    case QpEnd::Cause::request:
    case QpEnd::Cause::receive: return meaning_of(end.status);
    case QpEnd::Cause::overrun:
      return ": a completion queue was full; the program polls too rarely, or made it too small";
    case QpEnd::Cause::queues: return ": its queues make no sense; the program may have overwritten them";
    case QpEnd::Cause::response: break;
  }
  return end.event == AsyncEventType::qp_access_error
             ? ": it refused a request of its peer (key, address, length or access)"
             : ": it refused a request of its peer that is not allowed or makes no sense";
}

}  // namespace

std::string text_of(const QpEnd& end) {
  const std::string peer =
      net::is_unspecified(end.peer) ? "" : fmt::format(" to {:#x} at {}", end.peer_qpn, net::to_text(end.peer));
  const std::string cause = cause_of(end);
  return fmt::format("queue pair {:#x}{} ended{}{}", end.qpn, peer, cause.starts_with(':') ? "" : " ", cause);
}

}  // namespace uroce::service
