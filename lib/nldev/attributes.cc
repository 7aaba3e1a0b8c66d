#include "nldev/attributes.h"

#include <linux/netlink.h>

#include <cstring>

namespace uroce::nldev {

namespace {

std::size_t begin(Bytes& out, uint16_t type) {
  const std::size_t at = out.size();
  const nlattr header{.nla_len = 0, .nla_type = type};
  out.resize(at + sizeof header);
  std::memcpy(out.data() + at, &header, sizeof header);
  return at;
}

void end(Bytes& out, std::size_t at) {
  const auto length = static_cast<uint16_t>(out.size() - at);
  std::memcpy(out.data() + at, &length, sizeof length);
  out.resize(at + NLA_ALIGN(length));
}

}  // namespace

void append(Bytes& out, const Attribute& attribute) {
  const std::size_t at = begin(out, attribute.type);
  const auto put = [&out](const void* data, std::size_t size) {
    const auto* const bytes = static_cast<const std::byte*>(data);
    out.insert(out.end(), bytes, bytes + size);
  };
  if (const auto* const text = std::get_if<std::string>(&attribute.value)) {
    put(text->c_str(), text->size() + 1);
  } else if (const auto* const bytes = std::get_if<Bytes>(&attribute.value)) {
    put(bytes->data(), bytes->size());
  } else if (const auto* const u8 = std::get_if<uint8_t>(&attribute.value)) {
    put(u8, sizeof *u8);
  } else if (const auto* const u32 = std::get_if<uint32_t>(&attribute.value)) {
    put(u32, sizeof *u32);
  } else if (const auto* const u64 = std::get_if<uint64_t>(&attribute.value)) {
    put(u64, sizeof *u64);
  }
  end(out, at);
}

void append(Bytes& out, const Attributes& attributes) {
  for (const Attribute& one : attributes) append(out, one);
}

// As nldev.c, without NLA_F_NESTED.
Nest::Nest(Bytes& out, uint16_t type) : out_(out), begin_(begin(out, type)) {}

Nest::~Nest() { end(out_, begin_); }

std::map<uint16_t, uint32_t> numbers_in(std::span<const std::byte> attributes) {
  std::map<uint16_t, uint32_t> out;
  while (attributes.size() >= sizeof(nlattr)) {
    nlattr header{};
    std::memcpy(&header, attributes.data(), sizeof header);
    if (header.nla_len < sizeof header || header.nla_len > attributes.size()) break;
    if (header.nla_len == sizeof header + sizeof(uint32_t)) {
      std::memcpy(&out[header.nla_type & NLA_TYPE_MASK], attributes.data() + sizeof header, sizeof(uint32_t));
    }
    const std::size_t whole = NLA_ALIGN(header.nla_len);
    if (whole > attributes.size()) break;
    attributes = attributes.subspan(whole);
  }
  return out;
}

}  // namespace uroce::nldev
