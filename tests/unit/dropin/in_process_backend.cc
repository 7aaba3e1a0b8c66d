// Stands in for the daemon: the devices are those of a stack in this process, two ports joined by rings, so that what
// lies above daemon.h can be tested without one. UROCE_TEST_EAL may hold other EAL arguments, separated by blanks, with
// the ports to serve instead; UROCE_TEST_ADDRESS is then the first one's address.
// While the file that UROCE_TEST_DAEMON_FILE names is missing, no daemon answers.
#include <uroce/daemon.h>
#include <uroce/stack.h>

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <mutex>
#include <sstream>

namespace uroce {
namespace {

constexpr const char* kRingPorts = "--no-huge --no-pci -m 256 --no-shconf --no-telemetry --lcores 0@0,1@0-1";

Result<Stack*> stack() {
  static std::mutex mutex;
  static Stack* running = nullptr;  // never stopped: a test program ends with its process
  const std::lock_guard lock(mutex);
  if (running != nullptr) return running;
  const char* eal = std::getenv("UROCE_TEST_EAL");
  const char* address = std::getenv("UROCE_TEST_ADDRESS");
  std::vector<std::string> args;
  std::istringstream words(eal != nullptr ? eal : kRingPorts);
  for (std::string word; words >> word;) args.push_back(word);
  StackOptions options;
  options.back_to_back = eal == nullptr;
  if (address != nullptr) options.addresses.emplace_back(address);
  options.mtu = 4200;
  auto started = Stack::start(args, options);
  if (!started) return std::unexpected(started.error());
  running = new Stack(std::move(*started));
  return running;
}

}  // namespace

Result<std::vector<DeviceInfo>> daemon_devices(const DaemonOptions& /*options*/) {
  const char* sign_of_life = std::getenv("UROCE_TEST_DAEMON_FILE");
  if (sign_of_life != nullptr && access(sign_of_life, F_OK) != 0) return fail(ENOENT, "no daemon answers");
  auto opened = stack();
  if (!opened) return std::unexpected(opened.error());
  std::vector<DeviceInfo> infos;
  for (const std::string& name : (*opened)->devices()) {
    auto context = (*opened)->open(name);
    if (!context) return std::unexpected(context.error());
    infos.push_back(context->info());
  }
  return infos;
}

Result<Context> open_daemon_device(const std::string& name, const DaemonOptions& /*options*/) {
  auto opened = stack();
  if (!opened) return std::unexpected(opened.error());
  return (*opened)->open(name);
}

}  // namespace uroce
