// Reads members of a JSON object from a stranger, and checks each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include <uroce/types.h>

namespace uroce::perf {

/// Longest text accepted, bytes.
inline constexpr std::size_t kMaxTextBytes = 2000;

/// Reads members of one object. A member that is missing or out of range reads as zero or empty. `problem` describes
/// the first of them. Both arguments outlive the reader.
class JsonReader {
 public:
  static constexpr uint64_t kMaxCount = ~uint64_t{0} >> 1;

  JsonReader(const nlohmann::json& object, std::string& problem) : object_(object), problem_(problem) {}

  uint64_t number(const char* name, uint64_t largest = kMaxCount);
  uint32_t number32(const char* name, uint32_t largest = ~0u) { return static_cast<uint32_t>(number(name, largest)); }
  /// A number from 0 to 1e18.
  double real(const char* name);
  bool flag(const char* name);
  /// Text without control characters, so that a peer cannot control the terminal.
  std::string text(const char* name);
  Gid gid(const char* name);
  /// The member; null, with a problem, when it is missing.
  const nlohmann::json* find(const char* name);
  void bad(std::string text);

 private:
  const nlohmann::json& object_;
  std::string& problem_;
};

}  // namespace uroce::perf
