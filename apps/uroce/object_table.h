// The kinds of objects that `uroce show` lists, and the meaning of what it says of each. Its commands, their --help and
// the manual pages follow from this table.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "message/protocol.h"

namespace uroce::cli {

/// A value of a row: a column of the table, and a key of the JSON.
struct Field {
  std::string_view name;  ///< as the daemon says it
  std::string_view meaning;
};

struct ObjectKind {
  const char* name;  ///< of the command
  message::Kind kind{};
  const char* help;
  std::span<const Field> fields;

  bool has(std::string_view field) const;
};

std::span<const ObjectKind> object_kinds();

/// The fields of a kind, a line each, for --help.
std::string fields_text(const ObjectKind& kind);
/// The same for `show peer`.
std::string guesses_text();

// The fields that the filters look at: numbers of queue pairs, and addresses.
inline constexpr std::string_view kQpnFields[] = {"qpn", "dest_qpn"};
inline constexpr std::string_view kAddressFields[] = {"dgid", "local", "remote"};

}  // namespace uroce::cli
