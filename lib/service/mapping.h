// A client's registered memory, mapped in the daemon: one range of addresses over the files that the client passed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <uroce/error.h>

#include "message/connection.h"
#include "message/memory_messages.h"
#include "service/fault_watch.h"
#include "service/kept_files.h"
#include "service/machine_budget.h"
#include "service/memory_file.h"
#include "service/memory_room.h"

namespace uroce::service {

/// How far a client is trusted with what others wait for.
struct MappingRules {
  FileRights files{};
  bool guard = false;   ///< an access to a missing page of small pages breaks the mapping, where FaultWatch can guard
  bool steady = false;  ///< small pages that can be removed are refused: EACCES
  std::shared_ptr<EngineWaits> waits{};  ///< where waits for missing pages are noted
  KeptFiles* files_kept = nullptr;       ///< where the segments' files are kept; not owned; nullptr: nowhere
  bool populate = true;                  ///< pages that are there are made present, for few faults of engines
};

/// The client's memory that is to be mapped.
struct MappingPlan {
  uint64_t address = 0;  ///< of the client's first byte
  uint64_t length = 0;   ///< bytes
  bool writable = false;
  uint64_t pieces = 0;  ///< segments that will come
  MappingRules rules{};
};

class Mapping {
 public:
  ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  /// The address in this process of the client's `address`.
  std::byte* data() const { return data_; }
  /// Bytes mapped, whole pages.
  uint64_t bytes() const { return bytes_; }
  bool broken() const { return watch_ && watch_->broken(); }
  /// All of it, of files that are kept; or nothing.
  std::span<const KeptSegment> segments() const { return segments_; }
  bool writable() const { return writable_; }
  /// Whether it has small pages that the client can remove.
  bool punchable() const { return punchable_; }
  /// Puts zero pages in the place of all: no access waits for the client any more. Any thread.
  void break_all() { watch_->break_all(); }

 private:
  friend class MappingBuilder;
  Mapping() = default;
  /// Reserves `bytes` of address space, and up to kAlignment more, with the huge-page alignment of `like`.
  Result<void> reserve(uint64_t like, uint64_t bytes, uint64_t alignment);

  std::byte* base_ = nullptr;
  uint64_t bytes_ = 0;
  std::byte* data_ = nullptr;
  uint64_t largest_page_ = 0;
  Share mappings_;
  Share holes_;
  MemoryRoom::Hold room_of_holes_;
  bool punchable_ = false;
  bool writable_ = false;
  std::vector<KeptSegment> segments_;
  std::optional<FaultWatch> watch_;
};

/// Makes a mapping of segments that may come in several messages. Descriptors are needed only while add() runs: its
/// mappings stay. They end with the builder unless it is completed. After an error it can only end. One thread.
class MappingBuilder {
 public:
  /// Takes the pieces from the machine's budget. The client's bytes [address, address + length) begin in the first page
  /// and end in the last. Errors: EINVAL, ENOMEM.
  static Result<MappingBuilder> begin(const MappingPlan& plan);
  /// Maps `segments` of `fds` behind those before. Errors: EINVAL (more bytes or pieces than planned, or not whole
  /// pages of their file), EBADF, EOPNOTSUPP (see check_memory_file()), EACCES (the rules), ENOMEM.
  Result<void> add(std::span<const message::Segment> segments, std::span<const message::Fd> fds);
  /// The same of one segment, whose descriptor is `fd`.
  Result<void> add_one(const message::Segment& segment, int fd);
  /// The client can remove pages later: reads then give zeros, and the mapping is broken(). Errors: EINVAL (segments
  /// are missing).
  Result<std::unique_ptr<Mapping>> complete();

  const MappingPlan& plan() const { return plan_; }
  /// As Mapping::segments(), of those that came so far.
  std::span<const KeptSegment> segments() const {
    return all_kept_ ? std::span<const KeptSegment>(mapping_->segments_) : std::span<const KeptSegment>();
  }
  uint64_t pieces() const { return pieces_; }

 private:
  explicit MappingBuilder(const MappingPlan& plan);
  Result<void> check(const message::Segment& segment) const;
  Result<void> map(const message::Segment& segment, int fd, const MemoryFile& file);
  void keep(const message::Segment& segment, int fd);

  MappingPlan plan_;
  uint64_t total_;  // bytes of all segments
  std::unique_ptr<Mapping> mapping_;
  uint64_t pieces_ = 0, done_ = 0;  // segments and their bytes so far
  // Files of huge pages are mapped in whole huge pages: bytes before the first segment and after the last.
  uint64_t before_ = 0, behind_ = 0;
  uint64_t largest_file_ = 0;
  bool all_kept_ = true;
};

}  // namespace uroce::service
