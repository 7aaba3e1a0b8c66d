#include "service/estate.h"

#include <cerrno>
#include <cstring>

#include <fcntl.h>

#include <fmt/format.h>

namespace uroce::service {
namespace {

constexpr std::size_t kHeader = 1 + sizeof(uint32_t);

uint32_t length_of(std::span<const std::byte> row) {
  uint32_t length = 0;
  std::memcpy(&length, row.data() + 1, sizeof length);
  return length;
}

}  // namespace

Result<uint32_t> EstateWriter::add(int fd) {
  message::Fd copy(fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!copy) {
    const int code = errno;
    return fail(code, fmt::format("cannot copy a descriptor: {}; raise the limit (LimitNOFILE)", std::strerror(code)));
  }
  estate_.fds.push_back(std::move(copy));
  return static_cast<uint32_t>(estate_.fds.size() - 1);
}

void EstateWriter::take_back(const Mark& mark) {
  estate_.rows.resize(mark.rows);
  estate_.fds.erase(estate_.fds.begin() + static_cast<std::ptrdiff_t>(mark.fds), estate_.fds.end());
}

Result<Row> EstateReader::next() const {
  if (left_.size() < kHeader || length_of(left_) > left_.size() - kHeader) {
    return fail(EPROTO, fmt::format("the estate ends in the middle of a row, {} bytes before its end", left_.size()));
  }
  return static_cast<Row>(left_[0]);
}

Result<std::span<const std::byte>> EstateReader::take_bytes(Row kind) {
  const auto found = next();
  if (!found) return std::unexpected(found.error());
  if (*found != kind) return bad_row(kind);
  const auto bytes = left_.subspan(kHeader, length_of(left_));
  left_ = left_.subspan(kHeader + bytes.size());
  return bytes;
}

Result<void> EstateReader::skip() {
  const auto found = next();
  if (!found) return std::unexpected(found.error());
  left_ = left_.subspan(kHeader + length_of(left_));
  return {};
}

Result<int> EstateReader::fd(uint32_t number) const {
  if (number < estate_.fds.size() && estate_.fds[number]) return estate_.fds[number].get();
  return fail(EPROTO,
              fmt::format("the estate names descriptor {} of {}, or names it twice", number, estate_.fds.size()));
}

Result<message::Fd> EstateReader::take_fd(uint32_t number) {
  if (auto there = fd(number); !there) return std::unexpected(there.error());
  return std::move(estate_.fds[number]);
}

std::unexpected<Error> EstateReader::bad_row(Row kind) const {
  return fail(EPROTO, fmt::format("the estate has no good row of kind {}, {} bytes before its end",
                                  static_cast<uint32_t>(kind), left_.size()));
}

}  // namespace uroce::service
