// A client's registered memory, mapped in the daemon: one range of addresses over the files that the client passed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include <uroce/error.h>

#include "message/connection.h"
#include "message/memory_messages.h"

namespace uroce::service {

class Mapping {
 public:
  /// Maps `segments` of `fds` in order. `address`, in the client, lies in the first page, the last of the `length`
  /// bytes from it on in the last. The client can take pages away behind us: what is read there after that is zero, and
  /// the mapping is broken(). Errors: EINVAL (segments that do not cover the bytes, or are not whole pages of their
  /// file), EBADF, EOPNOTSUPP (a kind of file whose pages may take for ever to come), EACCES, ENOMEM.
  static Result<std::unique_ptr<Mapping>> make(std::span<const message::Segment> segments,
                                               std::span<const message::Fd> fds, uint64_t address, uint64_t length,
                                               bool writable);
  ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  /// Where the client's `address` is here.
  std::byte* data() const { return data_; }
  /// Bytes mapped, whole pages.
  uint64_t bytes() const { return bytes_; }
  bool broken() const;

 private:
  Mapping() = default;
  /// `first`: the client's address of the first segment, `total`: bytes of all.
  Result<void> map(std::span<const message::Segment> segments, std::span<const message::Fd> fds, uint64_t first,
                   uint64_t total, bool writable);
  /// Takes `bytes` of address space where huge pages fall as they do from `like` on.
  Result<void> reserve(uint64_t like, uint64_t bytes);

  std::byte* base_ = nullptr;
  uint64_t bytes_ = 0;
  std::byte* data_ = nullptr;
  int watch_ = -1;  // see FaultWatch
};

}  // namespace uroce::service
