// The fields of a HELLO and a SACK in the text form; text.h has the grammar.
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

/// The fields that `payload` means, each with a blank before it. No value: it is not what a sender would write.
std::optional<std::string> recovery_text(Opcode opcode, std::span<const std::byte> payload);

/// Collects the fields of one line.
class RecoveryFields {
 public:
  explicit RecoveryFields(Opcode opcode) : opcode_(opcode) {}
  /// What is wrong with the field, empty when it was taken. No value: not a field of this operation. A flag has no
  /// value.
  std::optional<std::string> set(std::string_view key, std::string_view value);
  /// What is wrong with the fields together, empty for nothing; `payload` is left as it is when none was set.
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
