#include "uroce/values.h"

#include <uroce/types.h>
#include <utility>

#include "net/address.h"

namespace uroce::cli {

namespace {

/// 32 hexadecimal digits with colons between.
std::optional<Gid> gid_in(std::string_view text) {
  Gid gid;
  std::size_t digits = 0;
  for (const char c : text) {
    if (c == ':') continue;
    unsigned value = 0;
    if (digits == 2 * gid.bytes.size() || std::from_chars(&c, &c + 1, value, 16).ec != std::errc{}) return std::nullopt;
    gid.bytes[digits / 2] = static_cast<uint8_t>(gid.bytes[digits / 2] << 4 | value);
    ++digits;
  }
  if (digits != 2 * gid.bytes.size()) return std::nullopt;
  return gid;
}

std::optional<std::string> access_in(std::string_view text) {
  constexpr std::pair<Access, std::string_view> kNames[] = {{Access::local_write, "local_write"},
                                                            {Access::remote_write, "remote_write"},
                                                            {Access::remote_read, "remote_read"},
                                                            {Access::remote_atomic, "remote_atomic"},
                                                            {Access::mw_bind, "mw_bind"},
                                                            {Access::zero_based, "zero_based"},
                                                            {Access::flush_global, "flush_global"},
                                                            {Access::relaxed_ordering, "relaxed_ordering"},
                                                            {Access::remote_invalidate, "remote_invalidate"}};
  if (!text.starts_with("0x")) return std::nullopt;
  const auto bits = whole_number<uint32_t>(text.substr(2), 16);
  if (!bits) return std::nullopt;
  std::string out;
  for (const auto& [bit, word] : kNames) {
    if ((*bits & static_cast<uint32_t>(bit)) != 0) out += (out.empty() ? "" : "|") + std::string(word);
  }
  return out.empty() ? "local_read" : out;  // every region allows it
}

}  // namespace

std::string readable(std::string_view name, std::string value) {
  if (name == "dgid") {
    const auto gid = gid_in(value);
    if (gid) return *gid == Gid{} ? "" : net::to_text(*gid);
  }
  if (name == "access") {
    if (auto words = access_in(value)) return *std::move(words);
  }
  return value;
}

}  // namespace uroce::cli
