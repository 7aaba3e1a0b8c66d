#include "control/address_handle_registry.h"

#include <cerrno>

#include <fmt/format.h>

namespace uroce::control {
namespace {

/// One round of all engines serves so many handles: applications make and destroy one per message.
constexpr std::size_t kRetireTogether = 256;

}  // namespace

Result<transport::AddressHandleId> AddressHandleRegistry::add(const transport::AddressHandle& handle,
                                                              EngineRunner& runner) {
  auto id = table_.add(handle);
  if (!id) {
    retire(runner);
    id = table_.add(handle);
  }
  if (id) return *id;
  return fail(ENOMEM, fmt::format("{} has {} address handles; its limit (max_ah) is {}: destroy some", device_,
                                  table_.used(), transport::AddressHandleTable::kCapacity));
}

void AddressHandleRegistry::remove(transport::AddressHandleId id, EngineRunner& runner) {
  table_.remove(id);
  unretired_.push_back(id);
  // Do not retry at every call: an engine that does not reply may stay silent for a while.
  if (unretired_.size() % kRetireTogether == 0) retire(runner);
}

void AddressHandleRegistry::retire(EngineRunner& runner) {
  for (uint32_t index = 0; index < runner.count(); ++index) {
    if (!runner.run(index, [](transport::Engine&) {})) return;
  }
  for (const transport::AddressHandleId id : unretired_) table_.retire(id);
  unretired_.clear();
}

}  // namespace uroce::control
