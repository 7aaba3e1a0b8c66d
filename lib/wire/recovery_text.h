// The text form of a HELLO's and a SACK's fields. text.h has the grammar.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "wire/opcode.h"

namespace uroce::wire {

/// The fields of `payload`, each with a blank before it. No value when store() would write other bytes.
std::optional<std::string> recovery_text(Opcode opcode, std::span<const std::byte> payload);

}  // namespace uroce::wire
