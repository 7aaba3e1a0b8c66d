#include "uroce/filter.h"

#include <algorithm>
#include <string_view>

#include "net/address.h"
#include "uroce/object_table.h"
#include "uroce/values.h"

namespace uroce::cli {

namespace {

bool is_number(std::string_view text, uint32_t number) {
  return text.starts_with("0x") && whole_number<uint32_t>(text.substr(2), 16) == number;
}

/// Of "10.0.0.1", "10.0.0.1:7471", "fe80::1" or "[fe80::1]:7471".
std::string_view without_port(std::string_view text) {
  if (text.starts_with('[')) return text.substr(1, text.find(']') - 1);
  return std::ranges::count(text, ':') == 1 ? text.substr(0, text.find(':')) : text;
}

bool is_address(std::string_view text, const Gid& address) {
  const auto found = net::parse_address(without_port(text));
  return found && *found == address;
}

/// Whether one of these fields of the row is what is asked for.
bool any(const ObjectRow& row, const auto& fields, const auto& is) {
  return std::ranges::any_of(row.values, [&](const auto& value) {
    return std::ranges::find(fields, value.first) != std::end(fields) && is(value.second);
  });
}

}  // namespace

bool chooses(const Filter& filter, const ObjectRow& row) {
  if (filter.pid && row.pid != *filter.pid) return false;
  if (filter.qpn && !any(row, kQpnFields, [&](const auto& text) { return is_number(text, *filter.qpn); })) return false;
  return !filter.address ||
         any(row, kAddressFields, [&](const auto& text) { return is_address(text, *filter.address); });
}

bool chooses(const Filter& filter, const ClientRow& row) { return !filter.pid || row.pid == *filter.pid; }

}  // namespace uroce::cli
