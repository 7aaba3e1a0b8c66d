#include "service/qp_end_text.h"

#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>

#include "base/status_names.h"
#include "base/wr_opcodes.h"
#include "net/address.h"
#include "service/duration_text.h"
#include "transport/loss/retry_budget.h"

namespace uroce::service {
namespace {

using transport::FailedRequest;
using transport::QpEnd;

/// A retry that ends earlier takes a peer that does not run for a moment for dead.
constexpr Nanos kShortest = std::chrono::milliseconds(10);
/// The same, in round trips.
constexpr int kRoundTrips = 4;

struct Meaning {
  WcStatus status;
  std::string_view text;
};

constexpr std::array kMeanings{
    Meaning{WcStatus::local_length_error, "a message was longer than the receive for it"},
    Meaning{WcStatus::local_qp_operation_error, "a work request makes no sense"},
    Meaning{WcStatus::local_protection_error,
            "a work request names memory that it may not use (key, address, length or access)"},
    Meaning{WcStatus::mw_bind_error, "a memory window could not be bound"},
    Meaning{WcStatus::bad_response, "the peer sent a response that fits no request"},
    Meaning{WcStatus::local_access_error, "a message came for memory that it may not write"},
    Meaning{
        WcStatus::remote_invalid_request,
        "the peer refused a request: it is longer than the receive there, or of a kind that the peer does not take"},
    Meaning{WcStatus::remote_access_error,
            "the peer refused a key, an address, a length or a right; its region may be gone"},
    Meaning{WcStatus::remote_operation_error, "the peer could not carry out a request"},
    Meaning{WcStatus::retry_exceeded,
            "no acknowledgement came within timeout and retry_cnt; see that the peer runs and that packets of the path "
            "MTU reach it (uroce ping ADDRESS)"},
    Meaning{WcStatus::rnr_retry_exceeded, "the peer had no receive posted within min_rnr_timer and rnr_retry"},
};

std::string_view name(WrOpcode opcode) {
  switch (opcode) {
    case WrOpcode::rdma_write:
    case WrOpcode::rdma_write_with_imm: return "RDMA WRITE";
    case WrOpcode::rdma_read: return "RDMA READ";
    case WrOpcode::send:
    case WrOpcode::send_with_imm:
    case WrOpcode::send_with_invalidate: return "SEND";
    default: return uroce::is_atomic(opcode) ? "atomic" : "request";
  }
}

/// E.g. "the RDMA WRITE of 64 bytes to 0x7f0000001000".
std::string request_name(const FailedRequest& request) {
  const bool has_address = request.opcode == WrOpcode::rdma_write || request.opcode == WrOpcode::rdma_write_with_imm ||
                           has_response(request.opcode);
  const std::string_view preposition = request.opcode == WrOpcode::rdma_read ? "from" : "to";
  return fmt::format("the {} of {} bytes{}", name(request.opcode), request.length,
                     has_address ? fmt::format(" {} {:#x}", preposition, request.remote_addr) : "");
}

/// Of a request for which no acknowledgement came.
std::string silence_of(const FailedRequest& request, bool link_was_down) {
  const Nanos once = transport::ack_timeout(request.timeout);
  const int tries = request.retry_cnt + 1;
  const std::string waited =
      fmt::format("no acknowledgement of {} came in {} tries of {}", request_name(request), tries, duration_text(once));
  if (link_was_down) return waited + "; the link was down meanwhile";
  if (once * tries < std::max(kShortest, kRoundTrips * request.round_trip)) {
    return waited +
           fmt::format("; that is too short for a peer that is busy for a moment{}: set timeout to 14 (67 ms) or more",
                       request.round_trip == Nanos(0)
                           ? ""
                           : fmt::format(" (a round trip takes {})", duration_text(request.round_trip)));
  }
  if (request.requests_done == 0) {
    return waited +
           fmt::format(
               ", and none of any request before: the peer may not run, a firewall may stand between, or QPN, PSN or "
               "GID are not those of the peer's queue pair{} (uroce ping ADDRESS)",
               request.length < request.mtu
                   ? ""
                   : fmt::format(", or packets of the path MTU, {} bytes, may not pass", request.mtu));
  }
  if (request.length >= request.mtu && request.packets_done <= request.requests_done) {
    return waited + fmt::format(
                        ", but of {} requests of one packet before: packets of the path MTU, {} bytes, may not pass; "
                        "compare the MTUs of all interfaces on the way (uroce ping ADDRESS)",
                        request.requests_done, request.mtu);
  }
  return waited + fmt::format(
                      ", but of {} requests before: the peer's queue pair or program has ended, or its host or the way "
                      "there has failed (uroce ping ADDRESS)",
                      request.requests_done);
}

/// The words that the request adds to the status; empty for none.
std::string request_text(const QpEnd& end, bool link_was_down) {
  if (!end.request) return {};
  const FailedRequest& request = *end.request;
  switch (end.status) {
    case WcStatus::retry_exceeded: return request.timeout == 0 ? std::string() : silence_of(request, link_was_down);
    case WcStatus::rnr_retry_exceeded:
      return fmt::format(
          "the peer had no receive posted for {}, after {} retries (rnr_retry); post receives earlier, or "
          "set rnr_retry to 7 (no limit)",
          request_name(request), request.rnr_retry);
    case WcStatus::remote_access_error:
      return fmt::format("the peer refused {}: its key, address, length or right is wrong, or the region has gone",
                         request_name(request));
    case WcStatus::remote_invalid_request:
      return fmt::format(
          "the peer refused {}: it is longer than the receive there, or of a kind that the peer does not take",
          request_name(request));
    default: return {};
  }
}

std::string meaning_of(const QpEnd& end, bool link_was_down) {
  const auto found = std::ranges::find(kMeanings, end.status, &Meaning::status);
  if (found == kMeanings.end()) return fmt::format("with status {}", static_cast<int>(end.status));
  const std::string more = request_text(end, link_was_down);
  return fmt::format("with {} (status {}): {}", status_name(end.status), static_cast<int>(end.status),
                     more.empty() ? found->text : more);
}

std::string cause_of(const QpEnd& end, bool link_was_down) {
  switch (end.cause) {
    case QpEnd::Cause::request:
    case QpEnd::Cause::receive: return meaning_of(end, link_was_down);
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

std::string text_of(const QpEnd& end, bool link_was_down) {
  const std::string peer =
      net::is_unspecified(end.peer) ? "" : fmt::format(" to {:#x} at {}", end.peer_qpn, net::to_text(end.peer));
  const std::string cause = cause_of(end, link_was_down);
  return fmt::format("queue pair {:#x}{} ended{}{}", end.qpn, peer, cause.starts_with(':') ? "" : " ", cause);
}

}  // namespace uroce::service
