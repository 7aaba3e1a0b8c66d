#include "faults/opcode_names.h"

#include <fmt/format.h>

#include <cerrno>
#include <string>

#include "base/comma_list.h"
#include "wire/opcode.h"
#include "wire/text_names.h"

namespace uroce::faults {

namespace {

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c == ' ' ? '_' : c;
  return out;
}

/// Whether a name, or a beginning with * behind it, is `name`.
bool fits(std::string_view wanted, std::string_view name) {
  return wanted.ends_with('*') ? name.starts_with(wanted.substr(0, wanted.size() - 1)) : wanted == name;
}

bool add_opcodes(std::string_view wanted, std::bitset<256>& opcodes) {
  bool any = false;
  for (std::size_t i = 0; i < wire::kOpcodes.size(); ++i) {
    if (wire::kOpcodes[i].name == nullptr) continue;
    const std::string name = lower(wire::kOpcodes[i].name);
    const auto transport = wire::transport_of(static_cast<wire::Opcode>(i));
    if (!fits(wanted, name) && !fits(wanted, lower(wire::transport_prefix(transport)) + name)) continue;
    opcodes.set(i);
    any = true;
  }
  return any;
}

std::string all_names() {
  std::string out;
  for (std::size_t i = 0; i < 32; ++i) {
    if (wire::kOpcodes[i].name != nullptr) out += lower(wire::kOpcodes[i].name) + ", ";
  }
  return out + "cnp, hello, sack, nak, rnr";
}

}  // namespace

Result<void> read_opcodes(std::string_view list, Rule& rule) {
  std::bitset<256> opcodes;
  for (const std::string_view item : split_at_commas(list)) {
    const std::string wanted = lower(item);
    if (wanted == "nak") {
      rule.naks = true;
    } else if (wanted == "rnr") {
      rule.rnr_naks = true;
    } else if (wanted.empty() || !add_opcodes(wanted, opcodes)) {
      return fail(EINVAL, fmt::format("'{}' is no opcode; there are {}, with rc_, uc_, ud_ or xrc_ before them for one "
                                      "transport, and with * for all that begin so",
                                      item, all_names()));
    }
  }
  rule.opcodes = opcodes;
  return {};
}

}  // namespace uroce::faults
