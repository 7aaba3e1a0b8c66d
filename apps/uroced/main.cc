// uroced: the daemon that owns the ports and serves their devices to the programs of this machine.
#include <fmt/format.h>

#include <cstdio>
#include <exception>

#include "uroced/command_line.h"
#include "uroced/daemon.h"

namespace {

using namespace uroce::daemon;

int check(const CommandLine& command) {
  const auto config = load_config(command);
  if (!config) {
    for (const std::string& error : config.error()) fmt::print(stderr, "{}\n", error);
    return kFailed;
  }
  fmt::print("{}: no errors\n", command.check_file);
  return kOk;
}

int start(int argc, char** argv) {
  const auto command = parse_command_line(argc, argv);
  if (!command) {
    fmt::print(command.error().code == kOk ? stdout : stderr, "{}\n", command.error().text);
    return command.error().code;
  }
  if (!command->check_file.empty()) return check(*command);
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
