// uroced: the daemon that owns the ports and serves their devices to the programs of this machine.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <exception>

#include "pmd_glue/card_check.h"
#include "pmd_glue/eal_args.h"
#include "pmd_glue/pci.h"
#include "uroced/command_line.h"
#include "uroced/daemon.h"
#include "uroced/eal_choice.h"

namespace {

using namespace uroce;
using namespace uroce::daemon;

/// Prints a line for each card. Whether all that the EAL arguments name can be driven as they are.
bool report_cards(const std::vector<std::string>& eal) {
  const auto host = glue::read_host_facts();
  const auto cards = glue::check_cards(host.hugepages, glue::read_interface_uses());
  for (const glue::CardReport& card : cards) {
    fmt::print("card {}: {}: {}\n", card.address, card.ready ? "ready" : "not ready", card.text);
  }
  if (cards.empty()) fmt::print("this machine has no Ethernet card on its PCI bus\n");
  const auto plan = glue::plan_eal(eal, host);
  if (!plan) {
    fmt::print(stderr, "EAL arguments: {}\n", plan.error().text);
    return false;
  }
  bool ready = true;
  for (const std::string& address : plan->cards) {
    const auto found = std::ranges::find(cards, address, &glue::CardReport::address);
    if (found == cards.end()) fmt::print(stderr, "{}\n", glue::why_no_port(address, glue::read_interface_uses()));
    ready = ready && found != cards.end() && found->ready;
  }
  return ready;
}

int check(const CommandLine& command) {
  const auto config = load_config(command);
  if (!config) {
    for (const std::string& error : config.error()) fmt::print(stderr, "{}\n", error);
    return kFailed;
  }
  if (!command.check_file.empty()) fmt::print("{}: no errors\n", command.check_file);
  return report_cards(choose_eal(command, *config, read_machine()).args) ? kOk : kFailed;
}

int start(int argc, char** argv) {
  const auto command = parse_command_line(argc, argv);
  if (!command) {
    fmt::print(command.error().code == kOk ? stdout : stderr, "{}\n", command.error().text);
    return command.error().code;
  }
  if (command->check) return check(*command);
  auto config = load_config(*command);
  if (!config) {
    for (const std::string& error : config.error()) fmt::print(stderr, "uroced: {}\n", error);
    return kUnusable;
  }
  return run(*command, std::move(*config));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return start(argc, argv);
  } catch (const std::exception& e) {
    fmt::print(stderr, "uroced: ended by an exception: {}\n", e.what());
    return kFailed;
  }
}
