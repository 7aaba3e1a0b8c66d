#include "dropin/rsocket/socket.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

#include "dropin/common/report.h"
#include "dropin/rdmacm/address.h"

namespace uroce::dropin::rsocket {

template <class Move>
std::size_t IoCursor::step(std::size_t bytes, Move move) {
  std::size_t done = 0;
  while (done < bytes && left_ > 0) {
    const iovec& buffer = buffers_.front();
    const std::size_t size = std::min(bytes - done, buffer.iov_len - at_);
    if (size > 0) move(static_cast<std::byte*>(buffer.iov_base) + at_, done, size);
    done += size;
    at_ += size;
    left_ -= size;
    if (at_ < buffer.iov_len) break;
    buffers_ = buffers_.subspan(1);
    at_ = 0;
  }
  return done;
}

std::size_t IoCursor::put(const std::byte* from, std::size_t bytes) {
  return step(bytes,
              [&](std::byte* there, std::size_t done, std::size_t size) { std::memcpy(there, from + done, size); });
}

std::size_t IoCursor::get(std::byte* to, std::size_t bytes) {
  return step(bytes,
              [&](const std::byte* there, std::size_t done, std::size_t size) { std::memcpy(to + done, there, size); });
}

namespace table {

namespace {

struct Table {
  std::shared_mutex mutex;
  std::unordered_map<int, std::shared_ptr<Socket>> sockets;
};

Table& all() {
  static Table& table = *new Table;  // never destroyed: programs make calls until they exit
  return table;
}

}  // namespace

std::shared_ptr<Socket> find(int fd) {
  const std::shared_lock lock(all().mutex);
  const auto found = all().sockets.find(fd);
  return found != all().sockets.end() ? found->second : nullptr;
}

void add(std::shared_ptr<Socket> socket) {
  const std::lock_guard lock(all().mutex);
  const int fd = socket->fd();
  all().sockets[fd] = std::move(socket);
}

std::shared_ptr<Socket> remove(int fd) {
  const std::lock_guard lock(all().mutex);
  auto node = all().sockets.extract(fd);
  return node.empty() ? nullptr : std::move(node.mapped());
}

}  // namespace table

void give_address(const sockaddr_storage& from, sockaddr* to, socklen_t* length) {
  if (to == nullptr || length == nullptr) return;
  const socklen_t size = rdmacm::address_length(reinterpret_cast<const sockaddr*>(&from));
  std::memcpy(to, &from, std::min(size, *length));
  *length = size;
}

int give_number(int number, void* value, socklen_t* length) {
  if (*length < sizeof(number)) return minus_one(EINVAL);
  std::memcpy(value, &number, sizeof(number));
  *length = sizeof(number);
  return 0;
}

int take_number(const void* value, socklen_t length, int& number) {
  if (value == nullptr || length < sizeof(number)) return minus_one(EINVAL);
  std::memcpy(&number, value, sizeof(number));
  return 0;
}

}  // namespace uroce::dropin::rsocket
