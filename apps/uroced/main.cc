// uroced: the daemon that owns the ports and serves their devices to the programs of this machine.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "pmd_glue/card_check.h"
#include "pmd_glue/eal_args.h"
#include "pmd_glue/notes.h"
#include "pmd_glue/pci.h"
#include "uroced/command_line.h"
#include "uroced/daemon.h"
#include "uroced/eal_choice.h"
#include "uroced/start_faults.h"
#include "uroced/supervised.h"
#include "uroced/supervisor.h"

namespace {

using namespace uroce;
using namespace uroce::daemon;

using Faults = std::vector<std::string>;

/// Prints each, and whether there was none.
bool report(const Faults& faults, std::string_view before) {
  for (const std::string& fault : faults) glue::write_line_to_stderr(fmt::format("{}{}", before, fault));
  return faults.empty();
}

/// Prints a line for each card. Whether all that the EAL arguments name can be driven as they are.
bool report_cards(const std::vector<std::string>& eal, const glue::HostFacts& host, const Ports& ports) {
  const auto cards = glue::check_cards(host.hugepages, ports.interfaces);
  for (const glue::CardReport& card : cards) {
    fmt::print("card {}: {}: {}\n", card.address, card.ready ? "ready" : "not ready", card.text);
  }
  if (cards.empty()) fmt::print("this machine has no Ethernet card on its PCI bus\n");
  const auto plan = glue::plan_eal(eal, host);
  bool ready = true;
  for (const std::string& address : plan ? plan->cards : std::vector<std::string>{}) {
    const auto found = std::ranges::find(cards, address, &glue::CardReport::address);
    if (found == cards.end()) glue::write_line_to_stderr(glue::why_no_port(address, ports.interfaces));
    ready = ready && found != cards.end() && found->ready;
  }
  return ready;
}

int check(const CommandLine& command) {
  const auto config = load_config(command);
  if (!config) {
    report(config.error(), "");
    return kFailed;
  }
  const auto eal = choose_eal(command, *config, read_machine()).args;
  const auto host = glue::read_host_facts();
  const Ports ports = read_ports();
  bool good = true;
  // Without a file and arguments only the cards are asked for.
  if (!command.check_file.empty() || !eal.empty()) {
    good = report(faults_of_settings(command, *config, eal, host, [&] { return ports; }), "");
    if (good && !command.check_file.empty()) fmt::print("{}: no errors\n", command.check_file);
    good = report(faults_of_machine(eal, host, ports), "") && good;
  }
  return report_cards(eal, host, ports) && good ? kOk : kFailed;
}

/// Faults that the start would meet only after it has taken the machine's ports.
Faults faults_before_start(const CommandLine& command, const Config& config) {
  const auto eal = choose_eal(command, config, read_machine()).args;
  return faults_of_settings(command, config, eal, glue::read_host_facts(), read_ports);
}

int start(int argc, char** argv) {
  auto command = parse_command_line(argc, argv);
  if (!command) {
    if (command.error().code == kOk) {
      fmt::print("{}\n", command.error().text);
    } else {
      glue::write_line_to_stderr(command.error().text);
    }
    return command.error().code;
  }
  if (command->check) return check(*command);
  if (const auto self = read_supervised()) {
    end_with_supervisor();
    // The first run has replaced the daemon that ran.
    command->replace_if_running = command->replace_if_running || self->again;
  } else if (command->supervise) {
    return supervise(command->replace_if_running);
  }
  auto config = load_config(*command);
  if (!report(config ? faults_before_start(*command, *config) : config.error(), "uroced: ")) return kUnusable;
  return run(*command, std::move(*config));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return start(argc, argv);
  } catch (const std::system_error& e) {
    const bool of_threads = e.code() == std::errc::resource_unavailable_try_again;
    glue::write_line_to_stderr(fmt::format(
        "uroced: ended by an exception: {}{}", e.what(),
        of_threads ? "; it may start no more threads: raise the limit (TasksMax of systemd, pids.max)" : ""));
    return kFailed;
  } catch (const std::exception& e) {
    glue::write_line_to_stderr(fmt::format("uroced: ended by an exception: {}", e.what()));
    return kFailed;
  }
}
