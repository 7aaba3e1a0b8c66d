// One connection, or one request for a datagram service, as its connection manager knows it (IBTA vol. 1, 12.9). A
// plain value, without pointers and handles: it can be copied, written out and read back. README.md shows the
// transitions.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>

#include <uroce/error.h>

#include "base/time.h"
#include "cm/ib/mad.h"
#include "cm/ib/request.h"

namespace uroce::cm {

enum class CmState : uint8_t {
  req_sent,
  rep_received,
  req_received,
  rep_sent,
  established,
  dreq_sent,
  timewait,
  sidr_sent,
  sidr_received,
  closed,  ///< the connection has ended; while its last answer is kept, the peer's repetitions get it again
};
/// "REQ sent", for error texts.
std::string_view name(CmState state);

/// Whether the peer still has an established connection that one of its messages calls stale (closing.h).
enum class CmProbe : uint8_t {
  none,
  asked,     ///< our REP was repeated, and the peer's RTU must follow
  answered,  ///< not long ago: no new probe yet
};

struct CmConnection {
  // Queue pair attributes follow from these (rdma_init_qp_attr(3)).
  bool active = false;
  CmRequest request;  ///< active: ours; passive: the peer's, with our address as its path's sgid
  CmReply reply;      ///< ours (passive, after accept()) or the peer's (active, after `reply`)
  uint32_t remote_qpn = 0;
  uint32_t remote_psn = 0;

  uint32_t id = 0;
  CmState state{};
  CmProbe probe{};
  bool owned = true;  ///< destroy() was not called: its events are of interest
  bool mra_received = false;
  bool delivered = false;       ///< the application has received the event of the request or reply
  bool alternate_path = false;  ///< the peer's REQ has one
  bool found_by_id = false;     ///< the table finds it by `remote_id`
  bool found_by_qpn = false;    ///< the table finds it by `remote_qpn`
  uint8_t retries_left = 0;
  uint32_t remote_id = 0;    ///< the peer's communication id or SIDR request id; 0: not known yet
  uint64_t remote_guid = 0;  ///< passive: the CA GUID in the peer's REQ
  uint32_t local_qpn = 0;
  uint64_t transaction_id = 0;
  Nanos interval{0};          ///< between repetitions of `last`
  std::optional<Mad> last{};  ///< our last message, to repeat on timeouts and for the peer's repetitions

  const CmPath& path() const { return request.path; }
  bool ud() const { return request.type == QpType::ud; }
};

/// EINVAL for a `call` that the connection allows only in one of `states`.
Result<void> check_state(const CmConnection& c, std::string_view call, std::initializer_list<CmState> states);
/// EINVAL when `data` does not fit into `message`.
Result<void> check_private(std::span<const std::byte> data, std::size_t most, std::string_view message);

}  // namespace uroce::cm
