// Sends RoCE frames as UDP datagrams, runs of them in one call (UDP_SEGMENT, udp(7)).
//
// The kernel writes the headers anew: its source port is the socket's, and its IPv4 id is 0 where a datagram is not
// fragmented (ip_select_ident_segs() of Linux), or counts the segments of a call from 0. The ICRC covers both, so it is
// changed to fit.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include <netinet/in.h>

#include "base/counter.h"
#include "pmd_glue/kif/outbox.h"
#include "pmd_glue/kif/super_frame.h"
#include "pmd_glue/udp/source_ports.h"
#include "wire/icrc_change.h"

namespace uroce::glue::udp {

/// One thread uses it.
class Sender final : public kif::Outbox {
 public:
  /// `ipv6`: of the sockets.
  explicit Sender(bool ipv6) : Outbox(true), ipv6_(ipv6) {}
  /// As Outbox::send(), each run of frames of one flow by its socket. Frames that are no RoCE, which a UDP socket
  /// cannot send, are counted and freed.
  uint16_t send(const SourcePorts& sources, std::span<rte_mbuf*> mbufs);
  const Counter& foreign() const { return foreign_; }

 private:
  /// Room for the addresses, the traffic class, the hop limit and the size of segments.
  static constexpr std::size_t kControl = 160;
  struct Message {
    alignas(8) std::array<std::byte, kControl> control;
    sockaddr_storage to;
  };
  uint16_t describe(std::size_t index, msghdr& message, std::span<rte_mbuf* const> mbufs, bool joins) override;
  /// Makes the frame what the kernel will send as segment `segment`.
  void fit(rte_mbuf& frame, const kif::UdpHeaders& headers, uint16_t segment);
  void address(Message& message, msghdr& header, const std::byte* ip, const kif::UdpHeaders& headers,
               uint16_t segment_bytes) const;

  const bool ipv6_;
  uint16_t source_port_ = 0;  ///< of the run that is being sent
  wire::IcrcChange changes_;
  Counter foreign_;
  std::array<Message, kMost> messages_;
};

}  // namespace uroce::glue::udp
