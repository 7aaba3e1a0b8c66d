// Receives RoCE datagrams from a UDP socket, several at a time (UDP_GRO), and makes them frames again.
//
// A socket does not show the IPv4 id, which the ICRC covers. It is told by the ICRC itself, whose other 16 bits then
// still protect the packet. IPv6 has no such field.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <uroce/types.h>

#include "base/counter.h"
#include "pmd_glue/kif/ready_frames.h"
#include "pmd_glue/kif/super_frame.h"
#include "wire/icrc_change.h"

struct rte_mbuf;
struct rte_mempool;

namespace uroce::glue::udp {

struct ReceiveCounters {
  Counter super_frames;
  Counter super_segments;   ///< datagrams that came in them
  Counter bad_lengths;      ///< no RoCE packet, or longer than a buffer; dropped
  Counter no_headers;       ///< the kernel did not tell the destination; dropped
  Counter unknown_ids;      ///< the ICRC fits no IPv4 id: the engine drops these
  Counter buffers_missing;  ///< times that the pool was empty; datagrams wait in the socket
  Counter lost;             ///< datagrams for which the socket had no room
};

/// The headers of a datagram, as a socket tells them.
struct DatagramHeaders {
  Gid source{}, destination{};
  uint16_t source_port = 0;
  uint8_t traffic_class = 0;
  uint8_t hop_limit = 64;
  uint32_t segment_bytes = 0;  ///< 0: one datagram
};

/// One thread uses it.
class Receiver {
 public:
  /// `pool` outlives the receiver. The frames go to `mac`, or to the Ethernet address of their group.
  Receiver(rte_mempool* pool, const EthAddr& mac);
  ~Receiver();
  Receiver(const Receiver&) = delete;
  Receiver& operator=(const Receiver&) = delete;

  /// At most out.size() frames; they belong to the caller.
  uint16_t receive(int fd, std::span<rte_mbuf*> out);
  /// As receive(), of what it has taken from its socket already.
  uint16_t receive_rest(std::span<rte_mbuf*> out) { return ready_.give_rest(out); }
  /// Tells what may follow the last burst.
  kif::Behind behind() const { return ready_.behind(); }
  const ReceiveCounters& counters() const { return counters_; }

 private:
  bool fill_stock();
  /// One message. False: none is there, or no buffer for it.
  bool receive_message(int fd);
  void take(const DatagramHeaders& headers, std::span<const std::byte> bytes);
  /// Writes the frame of one datagram.
  void build(rte_mbuf& mbuf, const DatagramHeaders& headers, std::span<const std::byte> datagram);
  /// Writes the id that makes the ICRC fit. `from_ip`: bytes from the IPv4 header to the ICRC. `change`: its bits that
  /// differ where the id is 0.
  void find_id(std::byte* ip, std::size_t from_ip, uint32_t change);

  rte_mempool* const pool_;
  const EthAddr mac_;
  const uint32_t room_;  ///< bytes of a frame that a buffer holds
  wire::IcrcChange changes_;
  uint32_t lost_before_ = 0;  ///< what the kernel had counted
  std::size_t stock_count_ = 0;
  std::array<rte_mbuf*, kif::kMaxReceivedSegments> stock_{};
  kif::ReadyFrames ready_;
  std::vector<std::byte> whole_;
  ReceiveCounters counters_;
};

}  // namespace uroce::glue::udp
