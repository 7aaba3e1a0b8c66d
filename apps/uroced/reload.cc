#include "uroced/reload.h"

#include "pmd_glue/stack_access.h"

namespace uroce::daemon {

void reload(const CommandLine& command, Config& config, Stack& stack, service::Server& server, Log& log) {
  const auto next = load_config(command);
  if (!next) {
    for (const std::string& error : next.error()) log.error("{}", error);
    log.error("SIGHUP: the file has errors; the settings stay as they are");
    return;
  }
  const auto changes = changes_between(config, *next);
  Config wanted = config;
  apply_live(wanted, *next);
  if (auto done = glue::StackAccess::set_addresses(stack, wanted.stack_options()); !done) {
    log.error("{}", done.error().text);
    log.error("SIGHUP: the settings stay as they are");
    return;
  }
  config = std::move(wanted);
  log.set_level(config.log_level);
  server.set_budgets(config.server.budgets);
  server.set_max_clients(config.server.max_clients);
  for (const Change& one : changes) {
    if (one.live) {
      log.info("{} changes from {} to {}", one.key, one.before, one.after);
    } else {
      log.warn("{} changes from {} to {} only when uroced is restarted", one.key, one.before, one.after);
    }
  }
  log.info("SIGHUP: {}", changes.empty() ? "nothing has changed" : "the settings were read again");
}

}  // namespace uroce::daemon
