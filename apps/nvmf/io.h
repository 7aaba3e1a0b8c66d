// One operation on a backend.
#pragma once

#include <cstddef>
#include <cstdint>

namespace uroce::nvmf {

struct Io;

/// Is told when an Io has ended.
class IoClient {
 public:
  virtual ~IoClient() = default;
  /// `error` is 0 or a positive errno value. May come from within Backend::submit().
  virtual void done(Io& io, int error) = 0;
};

/// One operation on a backend. Its owner keeps it, and `data`, until done().
struct Io {
  enum class Op : uint8_t { read, write, flush, write_zeroes, deallocate };
  Op op = Op::flush;
  bool force_unit_access = false;  ///< write, write_zeroes: the bytes are durable when it ends
  uint64_t offset = 0;             ///< bytes; with `length` inside the backend, as the caller has checked
  uint64_t length = 0;             ///< bytes
  std::byte* data = nullptr;       ///< read, write: `length` bytes
  IoClient* client = nullptr;
  // The backend's own.
  enum class Step : uint8_t { move, zero_range, punch_hole, write_zeroes, drop_pages, sync };
  Io* next = nullptr;
  uint64_t finished = 0;       ///< bytes of this step so far
  std::byte* pages = nullptr;  ///< of the backend's memory, to be dropped
  uint64_t pages_bytes = 0;
  int fd = -1;
  Step step = Step::move;
};

}  // namespace uroce::nvmf
