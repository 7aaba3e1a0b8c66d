// Connections of an in-process stack.
#include <uroce/cm.h>
#include <uroce/stack.h>

#include <cerrno>

#include "client/cm_impl.h"
#include "client/in_process_cm.h"
#include "pmd_glue/stack_access.h"

namespace uroce {

Result<ConnectionManager> ConnectionManager::open(Stack& stack) {
  auto manager = glue::StackAccess::connections(stack);
  if (!manager) return std::unexpected(manager.error());
  return glue::StackAccess::connection_manager(stack, **manager);
}

ConnectionManager glue::StackAccess::connection_manager(const Stack& stack, cm::Manager& manager) {
  return ConnectionManager(client::make_in_process_cm(manager, devices(stack).front()));
}

}  // namespace uroce
