// A client's registered memory, mapped in the daemon: one range of addresses over the files that the client passed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include <uroce/error.h>

#include "message/connection.h"
#include "message/memory_messages.h"
#include "service/fault_watch.h"
#include "service/machine_budget.h"
#include "service/memory_file.h"

namespace uroce::service {

/// How far a client is trusted with what others wait for.
struct MappingRules {
  FileRights files{};
  bool guard = false;   ///< an access to a missing page of small pages breaks the mapping, where FaultWatch can guard
  bool steady = false;  ///< small pages that can be removed are refused: EACCES
  std::shared_ptr<EngineWaits> waits{};  ///< where waits for missing pages are noted
};

class Mapping {
 public:
  /// Maps `segments` of `fds` in order. The client's bytes [address, address + length) begin in the first page and end
  /// in the last. The client can remove pages later: reads then give zeros, and the mapping is broken(). Errors: EINVAL
  /// (segments that do not cover the bytes, or are not whole pages of their file), EBADF, EOPNOTSUPP (see
  /// check_memory_file()), EACCES (the rules), ENOMEM.
  static Result<std::unique_ptr<Mapping>> make(std::span<const message::Segment> segments,
                                               std::span<const message::Fd> fds, uint64_t address, uint64_t length,
                                               bool writable, const MappingRules& rules = {});
  ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  /// The address in this process of the client's `address`.
  std::byte* data() const { return data_; }
  /// Bytes mapped, whole pages.
  uint64_t bytes() const { return bytes_; }
  bool broken() const { return watch_ && watch_->broken(); }
  /// Whether it has small pages that the client can remove.
  bool punchable() const { return punchable_; }
  /// Puts zero pages in the place of all: no access waits for the client any more. Any thread.
  void break_all() { watch_->break_all(); }

 private:
  Mapping() = default;
  /// `first`: the client's address of the first segment, `total`: bytes of all.
  Result<void> map(std::span<const message::Segment> segments, std::span<const message::Fd> fds, uint64_t first,
                   uint64_t total, bool writable, const MappingRules& rules);
  Result<void> fill(std::span<const message::Segment> segments, std::span<const MemoryFile> files,
                    std::span<const message::Fd> fds, bool writable);
  /// Reserves `bytes` of address space with the huge-page alignment of `like`.
  Result<void> reserve(uint64_t like, uint64_t bytes);

  std::byte* base_ = nullptr;
  uint64_t bytes_ = 0;
  std::byte* data_ = nullptr;
  Share mappings_;
  Share holes_;
  bool punchable_ = false;
  std::optional<FaultWatch> watch_;
};

}  // namespace uroce::service
