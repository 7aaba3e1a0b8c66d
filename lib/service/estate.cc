#include "service/estate.h"

#include <algorithm>
#include <cerrno>
#include <iterator>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

namespace uroce::service {
namespace {

constexpr std::size_t kHeader = 1 + sizeof(uint32_t);

/// Of the first packet, beside which a memfd with the rows comes. The descriptors follow.
struct EstateHeader {
  uint32_t version = kEstateVersion;
  uint64_t bytes = 0;
  uint32_t fds = 0;
  static void fields(auto& self, auto& archive) { archive(self.version, self.bytes, self.fds); }
};

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

Result<void> EstateReader::skip_to(std::initializer_list<Row> kinds) {
  while (!at_end()) {
    const auto found = next();
    if (!found) return std::unexpected(found.error());
    if (std::ranges::find(kinds, *found) != kinds.end()) break;
    left_ = left_.subspan(kHeader + length_of(left_));
  }
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

Result<void> send_estate(message::SuccessionLink& successor, const Estate& estate) {
  const message::Fd rows(memfd_create("uroce-estate", MFD_CLOEXEC));
  const auto bytes = static_cast<ssize_t>(estate.rows.size());
  if (!rows || pwrite(rows.get(), estate.rows.data(), estate.rows.size(), 0) != bytes) {
    return fail(ENOMEM, fmt::format("no memory for an estate of {} bytes", bytes));
  }
  std::vector<std::byte> header;
  message::encode(header, EstateHeader{.version = estate.versions.estate,
                                       .bytes = estate.rows.size(),
                                       .fds = static_cast<uint32_t>(estate.fds.size())});
  const int beside = rows.get();
  if (auto sent = successor.send(message::Step::estate, header, {&beside, 1}); !sent) return sent;
  std::vector<int> fds;
  for (std::size_t at = 0; at < estate.fds.size(); at += fds.size()) {
    fds.clear();
    for (std::size_t i = at; i < estate.fds.size() && fds.size() < message::kMaxFds; ++i) {
      fds.push_back(estate.fds[i].get());
    }
    if (auto sent = successor.send(message::Step::estate, {}, fds); !sent) return sent;
  }
  return {};
}

Result<Estate> receive_estate(message::SuccessionLink& predecessor) {
  auto first = predecessor.receive({message::Step::estate}, message::kStepPatience);
  if (!first) return std::unexpected(first.error());
  EstateHeader header;
  struct stat file{};
  if (!message::decode(first->body, header) || first->fds.size() != 1 || fstat(first->fds[0].get(), &file) != 0 ||
      header.bytes > static_cast<uint64_t>(file.st_size)) {
    return fail(EPROTO, "the other daemon's estate does not begin with its rows");
  }
  if (header.version < kOldestEstateVersion || header.version > kEstateVersion) {
    return fail(EPROTO, fmt::format("the other daemon's estate has version {}, and this daemon reads {} to {}; restart "
                                    "the ordinary way",
                                    header.version, kOldestEstateVersion, kEstateVersion));
  }
  Estate estate{.versions = {.estate = header.version}};
  estate.rows.resize(header.bytes);
  if (pread(first->fds[0].get(), estate.rows.data(), header.bytes, 0) != static_cast<ssize_t>(header.bytes)) {
    return fail(EPROTO, fmt::format("the other daemon's estate has fewer bytes than {}", header.bytes));
  }
  while (estate.fds.size() < header.fds) {
    auto more = predecessor.receive({message::Step::estate}, message::kStepPatience);
    if (!more) return std::unexpected(more.error());
    if (more->fds.empty() || more->fds.size() > header.fds - estate.fds.size()) {
      return fail(EPROTO, fmt::format("{} descriptors came for the estate, and {} are missing", more->fds.size(),
                                      header.fds - estate.fds.size()));
    }
    std::ranges::move(more->fds, std::back_inserter(estate.fds));
  }
  return estate;
}

std::unexpected<Error> EstateReader::bad_row(Row kind) const {
  return fail(EPROTO, fmt::format("the estate has no good row of kind {}, {} bytes before its end",
                                  static_cast<uint32_t>(kind), left_.size()));
}

}  // namespace uroce::service
