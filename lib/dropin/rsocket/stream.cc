// The calls of a stream that its connection carries out.
#include "dropin/rsocket/stream.h"

#include <cerrno>

#include "dropin/common/report.h"

namespace uroce::dropin::rsocket {

namespace {

/// While connecting, connect() fails with EINPROGRESS; a send or receive fails with EWOULDBLOCK.
int connecting_fault() { return minus_one(errno == EINPROGRESS ? EAGAIN : errno); }

}  // namespace

ssize_t Stream::send(IoCursor from, int flags, const sockaddr* to, socklen_t /*length*/) {
  if (to != nullptr) return minus_one(EISCONN);
  if (state_.phase() == Phase::connecting && wait_connected(non_blocking(flags)) != 0) return connecting_fault();
  return static_cast<ssize_t>(connection_.send(from, flags));
}

ssize_t Stream::receive(IoCursor to, int flags, sockaddr* from, socklen_t* length) {
  if (!state_.connected()) {
    if (state_.phase() == Phase::connecting && wait_connected(non_blocking(flags)) != 0) return connecting_fault();
    if (state_.phase() < Phase::connected) return minus_one(ENOTCONN);
  }
  if (from == nullptr) return connection_.receive(to, flags);
  const bool takes = to.left() > 0 && (flags & MSG_PEEK) == 0;
  const ssize_t received = connection_.receive(to, flags);
  if (takes && received >= 0) peer_name(from, length);
  return received;
}

std::size_t Stream::write_at(IoCursor from, off_t offset, int flags) {
  return connection_.write_at(from, offset, flags);
}

off_t Stream::map(void* buffer, std::size_t length, int protection, off_t offset) {
  return connection_.map(id_->pd, buffer, length, protection, offset);
}

int Stream::unmap(void* buffer, std::size_t length) { return connection_.unmap(buffer, length); }

int Stream::shutdown(int how) {
  if (state_.phase() < Phase::connected) return minus_one(ENOTCONN);
  set_keepalive(false);
  return connection_.shutdown(how);
}

}  // namespace uroce::dropin::rsocket
