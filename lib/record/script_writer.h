// Writes a packet script (tests/script/README.md) of what one queue pair of a recording met and did.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <uroce/error.h>

#include "record/checks.h"

namespace uroce::record {

struct Script {
  std::string text{};
  uint64_t packets = 0;
  std::vector<std::string> left_out{};  ///< what the language has no words for
};

/// The script is called `name`. It ends with the packet `last` (of Passing::number); 0: with the recording, or with the
/// queue pair. Errors: EINVAL: the records are no recorder's; ENOENT: there is no such queue pair; EOPNOTSUPP: it has
/// no script; EIO: the engine does something else.
Result<Script> write_script(std::span<const std::byte> records, uint32_t qpn, std::string_view name, uint64_t last = 0,
                            std::size_t most_ring_bytes = kMostRingBytes);

}  // namespace uroce::record
