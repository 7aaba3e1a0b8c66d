#include "settings/table.h"
#include "wire/crc/kernel.h"

namespace uroce::settings {

Result<void> check(const StackOptions& options) {
  for (const Row& row : rows()) {
    if (auto ok = check(row.setting, row.stack.get(options)); !ok) return ok;
  }
  return {};
}

Result<void> check(const EngineSettings& settings) {
  for (const Row& row : rows()) {
    if (!row.engine) continue;
    if (auto ok = check(row.setting, row.engine.get(settings)); !ok) return ok;
  }
  return {};
}

StackOptions of_port(const StackOptions& options, const PortSettings& own) {
  StackOptions out = options;
  for (const Row& row : rows()) {
    if (!row.port) continue;
    const Value value = row.port.get(own);
    if (!std::holds_alternative<std::monostate>(value)) row.stack.set(out, value);
  }
  return out;
}

std::vector<std::string_view> icrc_choices() {
  std::vector<std::string_view> names = {"automatic"};
  for (const wire::crc::Kernel* kernel : wire::crc::available()) names.emplace_back(kernel->name);
  return names;
}

}  // namespace uroce::settings
