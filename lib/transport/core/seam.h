// The transport core's seam: frames in, frames out, events up. Time is an argument. Nothing here knows a driver.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include <uroce/types.h>

#include "base/time.h"
#include "base/wr_opcodes.h"
#include "wire/icrc.h"
#include "wire/packet.h"

namespace uroce::transport {

/// One received frame, Ethernet first, contiguous. Valid during Engine::on_frames() only.
struct RxFrame {
  std::span<const std::byte> bytes;
  bool lacks_icrc = false;  ///< it never left this process, and none was computed
};

/// A piece of payload in registered memory.
struct PayloadSpan {
  const std::byte* data = nullptr;
  uint32_t length = 0;
};

/// One frame to send. A raw frame is whole: its first bytes in `header`, the rest as payload, without pad and ICRC. Any
/// other has finished headers, then payload, `pad` zero bytes and the ICRC, which the sink computes as the bytes pass
/// (wire::IcrcState). Valid during FrameSink::send() only, except that payload in registered
/// memory stays readable until FrameSink::references_payload() turns false.
struct TxFrame {
  wire::HeaderBytes header;  ///< Ethernet to the last extended header
  const PayloadSpan* payload = nullptr;
  uint32_t payload_length =
      0;                      ///< bytes, the sum over the spans, 0..4096, or what the port's MTU allows in a raw frame
  uint32_t raw_receiver = 0;  ///< of a raw frame in loopback: the QPN whose engine gets it; 0: nobody wants it
  uint16_t header_length = 0;
  uint8_t payload_spans = 0;  ///< 0..kMaxSge
  uint8_t pad = 0;            ///< 0..3
  uint8_t l3_offset = 0;      ///< where the ICRC begins
  uint8_t ip_version = 0;     ///< 0 in a raw frame
  bool loopback = false;      ///< for this device itself: hand it to the engine of the destination QPN, not to the port
  uint8_t icrc_at = 0;        ///< bytes of the header that `icrc` counts already; 0: none
  bool raw = false;
  bool copy_payload = false;  ///< payload may change or go once send() has returned: copy it, do not refer to it
  uint32_t icrc = 0;

  /// The ICRC behind the headers.
  wire::IcrcState begin_icrc() const {
    if (icrc_at == 0) return wire::IcrcState::begin(headers_from(l3_offset), ip_version);
    auto state = wire::IcrcState::resume(icrc);
    state.update(headers_from(icrc_at));
    return state;
  }

 private:
  std::span<const std::byte> headers_from(std::size_t at) const { return {&header[at], header_length - at}; }
};

/// Takes the frames that an engine sends. It may have no room, but never loses a frame that it took.
class FrameSink {
 public:
  virtual ~FrameSink() = default;
  /// Frames that send() is sure to take now.
  virtual std::size_t room() = 0;
  /// Takes all of `frames`; their number is at most what room() returned.
  virtual void send(std::span<const TxFrame> frames) = 0;
  /// True while a frame that was taken still refers to payload in registered memory.
  virtual bool references_payload() { return false; }
  /// Names the frames taken so far, for references_payload_before(). A sink that does not override the two tracks all
  /// its frames together.
  virtual uint64_t mark_payload() { return 0; }
  /// True while a frame taken before mark_payload() returned `mark` still refers to payload in registered memory.
  /// Turns false even while later frames follow without a pause.
  virtual bool references_payload_before(uint64_t mark) {
    (void)mark;
    return references_payload();
  }
};

/// A request with which a queue pair ended, and what is known of the requests before it.
struct FailedRequest {
  WrOpcode opcode{};
  uint32_t length = 0;       ///< bytes
  uint64_t remote_addr = 0;  ///< where it has one
  uint32_t requests_done = 0;
  uint32_t packets_done = 0;  ///< PSNs of those, modulo 2^24
  uint32_t mtu = 0;           ///< bytes
  uint8_t timeout = 0;        ///< its code: see ack_timeout()
  uint8_t retry_cnt = 0;
  uint8_t rnr_retry = 0;
  Nanos round_trip{0};  ///< smoothed; 0: not known
};

/// Why a queue pair ended by itself; with UC and UD its send queue alone may have.
struct QpEnd {
  enum class Cause : uint8_t {
    request,   ///< a send work request completed with `status`
    receive,   ///< a receive did
    response,  ///< it refused a request of its peer: `event` is qp_request_error or qp_access_error
    overrun,   ///< a completion queue was full (C11-39)
    queues,    ///< its queues make no sense, or nobody knows how far it was
  };
  uint32_t qpn = 0;
  Cause cause{};
  WcStatus status{};
  AsyncEventType event{};
  Gid peer{};                              ///< unspecified where it has none
  uint32_t peer_qpn = 0;                   ///< likewise 0
  std::optional<FailedRequest> request{};  ///< with Cause::request
};

/// Receives the events that an engine reports besides completions. Called on the engine's thread, rarely, never per
/// packet.
class EngineEvents {
 public:
  virtual ~EngineEvents() = default;
  /// A completion queue that was armed has a completion that fires it.
  virtual void on_completion_event(uint32_t cq_id) = 0;
  /// `object` is a QPN, a completion queue id or a shared receive queue id, by type.
  virtual void on_async_event(AsyncEventType type, uint32_t object) = 0;
  /// `peer` has named a key that opens nothing, which ends its connection with the queue pair.
  virtual void on_wrong_key(const Gid& peer, uint32_t qpn) = 0;
  virtual void on_end(const QpEnd& end) = 0;
};

}  // namespace uroce::transport
