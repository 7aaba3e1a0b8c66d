// The text form of a HELLO's and a SACK's fields. text.h has the grammar.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "wire/opcode.h"
#include "wire/recovery.h"

namespace uroce::wire {

/// The fields of `payload`, each with a blank before it. No value when store() would write other bytes.
std::optional<std::string> recovery_text(Opcode opcode, std::span<const std::byte> payload);

/// Collects the fields of one line.
class RecoveryFields {
 public:
  explicit RecoveryFields(Opcode opcode) : opcode_(opcode) {}
  /// Returns an error text, or an empty one when the field is valid. No value: the operation has no such field. For a
  /// flag, `value` is empty.
  std::optional<std::string> set(std::string_view key, std::string_view value);
  /// Writes the fields to `payload`, which stays unchanged when no field was set. Returns an error text, or an empty
  /// one.
  std::string store(std::vector<std::byte>& payload);

 private:
  std::optional<std::string> set_hello(std::string_view key, std::string_view value);
  std::optional<std::string> set_sack(std::string_view key, std::string_view value);
  std::string set_bits();

  Opcode opcode_;
  bool any_ = false;
  Hello hello_{.epoch = 1, .parking = 255};
  Sack sack_{};
  std::string bits_;
};

}  // namespace uroce::wire
