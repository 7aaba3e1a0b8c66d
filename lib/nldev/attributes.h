// Attributes of netlink messages: numbers, texts, and nests of them (netlink(7)).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace uroce::nldev {

using Bytes = std::vector<std::byte>;

struct Attribute {
  uint16_t type = 0;
  std::variant<uint8_t, uint32_t, uint64_t, std::string, Bytes> value{};
};
using Attributes = std::vector<Attribute>;

/// Appends one: a text with a zero byte behind it, all of them padded to 4 bytes.
void append(Bytes& out, const Attribute& attribute);
void append(Bytes& out, const Attributes& attributes);

/// A nest that grows while this object lives.
class Nest {
 public:
  Nest(Bytes& out, uint16_t type);
  Nest(const Nest&) = delete;
  Nest& operator=(const Nest&) = delete;
  ~Nest();

 private:
  Bytes& out_;
  const std::size_t begin_;
};

/// The numbers of 32 bits among a message's attributes, by type. Stops at what is no attribute.
std::map<uint16_t, uint32_t> numbers_in(std::span<const std::byte> attributes);

}  // namespace uroce::nldev
