#include "uroced/field_kinds.h"

namespace uroce::daemon {

using settings::Kind;
using settings::Value;

std::expected<Value, Refusal> read_value(const toml::node& node, const settings::Setting& setting) {
  Value value;
  switch (setting.kind) {
    case Kind::whole:
      if (node.is_integer()) value = node.as_integer()->get();
      break;
    case Kind::real:
      if (const auto real = node.value<double>(); real && !node.is_boolean()) value = *real;
      break;
    case Kind::truth:
      if (node.is_boolean()) value = node.as_boolean()->get();
      break;
    case Kind::word:
    case Kind::machine_word:
    case Kind::text:
      if (node.is_string()) value = node.as_string()->get();
      break;
  }
  if (std::holds_alternative<std::monostate>(value)) return wrong_kind(node, settings::needed(setting));
  if (!settings::allows(setting, value)) return refuse(fmt::format("it must be {}", settings::needed(setting)));
  return value;
}

}  // namespace uroce::daemon
