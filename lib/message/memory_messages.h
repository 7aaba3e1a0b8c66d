// Memory regions and memory windows.
#pragma once

#include <cstdint>
#include <vector>

#include <uroce/types.h>

#include "message/protocol.h"

namespace uroce::message {

struct Segment {
  uint32_t fd = 0;      ///< index among the packet's descriptors
  uint64_t offset = 0;  ///< in the file
  uint64_t length = 0;
  static void fields(auto& self, auto& archive) { archive(self.fd, self.offset, self.length); }
};

/// Begins a registration whose segments do not fit in one message. A device prepares one at a time, which replaces the
/// one before. Messages of add_segments follow, and a registration that is `prepared` ends it, as does any error.
struct PrepareMemory {
  uint64_t length = 0;   ///< as in the registration
  uint64_t address = 0;  ///< as in the registration
  bool writable = false;
  uint32_t segments = 0;  ///< that will be added
  static void fields(auto& self, auto& archive) { archive(self.length, self.address, self.writable, self.segments); }
};

struct AddSegments {
  std::vector<Segment> segments{};  ///< behind those before
  static void fields(auto& self, auto& archive) { archive(self.segments); }
};

struct RegisterMemory {
  uint32_t pd = 0;
  uint64_t base = 0;     ///< address of the first byte in work requests
  uint64_t length = 0;   ///< bytes
  uint64_t address = 0;  ///< of the first byte in the client; the daemon's mapping is aligned alike
  AccessFlags access{};
  std::vector<Segment> segments{};  ///< whole pages; the first holds the first byte
  bool prepared = false;            ///< the segments came before, by add_segments; `segments` is empty
  /// Whether peers or completions may write to it.
  bool writable() const { return access.has_any(Access::local_write | Access::remote_write | Access::remote_atomic); }
  static void fields(auto& self, auto& archive) {
    archive(self.pd, self.base, self.length, self.address, self.access, self.segments, self.prepared);
  }
};

struct ReregisterMemory {
  uint32_t region = 0;
  RegisterMemory now{};  ///< all of it, changed or not
  static void fields(auto& self, auto& archive) { archive(self.region, self.now); }
};

struct RegisterMemoryReply {
  uint32_t id = 0;
  uint32_t key = 0;
  static void fields(auto& self, auto& archive) { archive(self.id, self.key); }
};

struct CreateWindow {
  uint32_t pd = 0;
  WindowType type{};
  static void fields(auto& self, auto& archive) { archive(self.pd, self.type); }
};

struct CreateWindowReply {
  uint32_t id = 0;
  uint32_t key = 0;
  static void fields(auto& self, auto& archive) { archive(self.id, self.key); }
};

/// Memory windows bound to a region.
struct WindowCount {
  uint32_t bound = 0;
  static void fields(auto& self, auto& archive) { archive(self.bound); }
};

}  // namespace uroce::message
