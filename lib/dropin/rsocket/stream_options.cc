// Options of a stream (rsetsockopt(), rgetsockopt()).
#include <netinet/in.h>
#include <netinet/tcp.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "dropin/common/report.h"
#include "dropin/rsocket/stream.h"

namespace uroce::dropin::rsocket {

namespace {

/// Options that are stored without an effect.
enum Switch : uint32_t { kReuseAddress = 1, kKeepAlive = 2, kOobInline = 4, kNoDelay = 8, kV6Only = 16, kLinger = 32 };

constexpr int kDefaultSegment = 2048;

/// The two halves of a buffer must have the same size.
uint32_t doubled(int value, uint32_t least) {
  constexpr int kMax = 1 << 29;
  return std::max(static_cast<uint32_t>(std::clamp(value, 1, kMax)) * 2, least);
}

}  // namespace

int Stream::set_switch(uint32_t which, bool on) {
  if (on) {
    switches_ |= which;
  } else {
    switches_ &= ~which;
  }
  return 0;
}

int Stream::set_option(int level, int name, const void* value, socklen_t length) {
  switch (level) {
    case SOL_SOCKET: return set_socket_option(name, value, length);
    case IPPROTO_TCP: return set_tcp_option(name, value, length);
    case SOL_RDMA: return set_rdma_option(name, value, length);
    case IPPROTO_IPV6: break;
    default: return minus_one(ENOTSUP);
  }
  int number = 0;
  if (name != IPV6_V6ONLY) return minus_one(ENOTSUP);
  if (take_number(value, length, number) != 0) return -1;
  if (rdma_set_option(id_, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &number, sizeof(number)) != 0) return -1;
  return set_switch(kV6Only, number != 0);
}

int Stream::set_socket_option(int name, const void* value, socklen_t length) {
  int number = 0;
  if (take_number(value, length, number) != 0) return -1;  // a struct linger begins with an int
  switch (name) {
    case SO_REUSEADDR:
      if (state_.phase() == Phase::idle &&
          rdma_set_option(id_, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &number, sizeof(number)) != 0) {
        return -1;
      }
      return set_switch(kReuseAddress, number != 0);
    case SO_RCVBUF:
      if (!connection_.has_receive_buffer()) sizes_.receive_bytes = doubled(number, 2);
      return 0;
    case SO_SNDBUF:
      if (!connection_.has_send_buffer()) sizes_.send_bytes = doubled(number, 2 * kLowWater);
      return 0;
    case SO_LINGER: return set_switch(kLinger, number != 0);
    case SO_KEEPALIVE: return set_keepalive(number != 0);
    case SO_OOBINLINE: return set_switch(kOobInline, number != 0);
    default: return minus_one(ENOTSUP);
  }
}

int Stream::set_tcp_option(int name, const void* value, socklen_t length) {
  int number = 0;
  if (take_number(value, length, number) != 0) return -1;
  switch (name) {
    case TCP_KEEPCNT:
    case TCP_KEEPINTVL:
    case TCP_MAXSEG: return 0;  // the path's MTU cannot be changed
    case TCP_KEEPIDLE:
      if (number <= 0) return minus_one(EINVAL);
      return keepalive_.set_seconds(number, keepalive_handler());
    case TCP_NODELAY: return set_switch(kNoDelay, number != 0);
    default: return minus_one(ENOTSUP);
  }
}

int Stream::set_rdma_option(int name, const void* value, socklen_t length) {
  if (state_.phase() >= Phase::connecting) return minus_one(EINVAL);
  if (name == RDMA_ROUTE) return 0;  // there is one route to each destination
  int number = 0;
  if (take_number(value, length, number) != 0) return -1;
  const auto size = std::min(static_cast<uint32_t>(number), kQueueMax);
  switch (name) {
    case RDMA_SQSIZE: sizes_.send_queue = size; return 0;
    case RDMA_RQSIZE: sizes_.receive_queue = size; return 0;
    case RDMA_INLINE: sizes_.inline_bytes = size; return 0;
    case RDMA_IOMAPSIZE: sizes_.mappings = wire::mapping_entries(static_cast<uint32_t>(number)); return 0;
    default: return minus_one(ENOTSUP);
  }
}

int Stream::get_option(int level, int name, void* value, socklen_t* length) {
  const auto give_switch = [&](uint32_t which) { return give_number((switches_ & which) != 0 ? 1 : 0, value, length); };
  const auto is = [&](int of_level, int of_name) { return level == of_level && name == of_name; };
  if (level == SOL_RDMA) return get_rdma_option(name, value, length);
  if (is(SOL_SOCKET, SO_REUSEADDR)) return give_switch(kReuseAddress);
  if (is(SOL_SOCKET, SO_KEEPALIVE)) return give_switch(kKeepAlive);
  if (is(SOL_SOCKET, SO_OOBINLINE)) return give_switch(kOobInline);
  if (is(SOL_SOCKET, SO_RCVBUF)) return give_number(static_cast<int>(sizes_.receive_bytes), value, length);
  if (is(SOL_SOCKET, SO_SNDBUF)) return give_number(static_cast<int>(sizes_.send_bytes), value, length);
  if (is(SOL_SOCKET, SO_ERROR)) return give_number(state_.take_error(), value, length);
  if (is(SOL_SOCKET, SO_LINGER)) {
    const linger out{(switches_ & kLinger) != 0 ? 1 : 0, 0};
    if (*length < sizeof(out)) return minus_one(EINVAL);
    std::memcpy(value, &out, sizeof(out));
    *length = sizeof(out);
    return 0;
  }
  if (is(IPPROTO_TCP, TCP_KEEPCNT) || is(IPPROTO_TCP, TCP_KEEPINTVL)) return give_number(1, value, length);
  if (is(IPPROTO_TCP, TCP_KEEPIDLE)) return give_number(keepalive_.seconds(), value, length);
  if (is(IPPROTO_TCP, TCP_NODELAY)) return give_switch(kNoDelay);
  if (is(IPPROTO_TCP, TCP_MAXSEG)) return give_number(segment(), value, length);
  if (is(IPPROTO_TCP, TCP_INFO)) return give_tcp_info(value, length);
  if (is(IPPROTO_IPV6, IPV6_V6ONLY)) return give_switch(kV6Only);
  return minus_one(ENOTSUP);
}

/// Bytes in one packet.
int Stream::segment() const { return id_->route.num_paths > 0 ? 1 << (7 + id_->route.path_rec->mtu) : kDefaultSegment; }

/// The state and the sizes. The rest is of TCP's machinery, and stays 0. A shorter buffer gets the first part, as
/// from the kernel (tcp(7)).
int Stream::give_tcp_info(void* value, socklen_t* length) const {
  tcp_info out{};
  out.tcpi_state = tcp_state();
  out.tcpi_snd_mss = out.tcpi_rcv_mss = out.tcpi_advmss = out.tcpi_pmtu = static_cast<uint32_t>(segment());
  *length = std::min(*length, static_cast<socklen_t>(sizeof(out)));
  std::memcpy(value, &out, *length);
  return 0;
}

uint8_t Stream::tcp_state() const {
  switch (state_.phase()) {
    case Phase::listening: return TCP_LISTEN;
    case Phase::connecting: return TCP_SYN_SENT;
    case Phase::connected: return TCP_ESTABLISHED;
    default: return TCP_CLOSE;
  }
}

int Stream::get_rdma_option(int name, void* value, socklen_t* length) {
  switch (name) {
    case RDMA_SQSIZE: return give_number(static_cast<int>(sizes_.send_queue), value, length);
    case RDMA_RQSIZE: return give_number(static_cast<int>(sizes_.receive_queue), value, length);
    case RDMA_INLINE: return give_number(static_cast<int>(sizes_.inline_bytes), value, length);
    case RDMA_IOMAPSIZE: return give_number(static_cast<int>(sizes_.mappings), value, length);
    case RDMA_ROUTE: return give_route(value, length);
    default: return minus_one(ENOTSUP);
  }
}

/// The layout of struct ibv_path_data (IBTA vol. 1, 15.2.5.16).
int Stream::give_route(void* value, socklen_t* length) {
  ibv_path_data out{};
  if (*length < sizeof(out)) return minus_one(EINVAL);
  *length = 0;
  if (id_->route.num_paths == 0) return 0;
  constexpr uint8_t kExactly = 2 << 6;
  const ibv_sa_path_rec& from = *id_->route.path_rec;
  out.path.dgid = from.dgid;
  out.path.sgid = from.sgid;
  out.path.flowlabel_hoplimit = htobe32(be32toh(from.flow_label) << 8 | from.hop_limit);
  out.path.tclass = from.traffic_class;
  out.path.reversible_numpath = 1 << 7 | 1;
  out.path.pkey = from.pkey;
  out.path.mtu = from.mtu | kExactly;
  out.path.rate = from.rate | kExactly;
  out.path.packetlifetime = from.packet_life_time | kExactly;
  std::memcpy(value, &out, sizeof(out));
  *length = sizeof(out);
  return 0;
}

/// Sends a message without bytes at intervals: its completion fails when the peer has gone.
int Stream::set_keepalive(bool on) {
  set_switch(kKeepAlive, on);
  if (on) return keepalive_.start(keepalive_handler());
  keepalive_.stop();
  return 0;
}

std::function<void()> Stream::keepalive_handler() {
  return [weak = weak_from_this()] {
    if (const auto stream = weak.lock()) stream->send_keepalive();
  };
}

void Stream::send_keepalive() {
  if (keepalive_.expired()) connection_.send_keepalive();
}

}  // namespace uroce::dropin::rsocket
