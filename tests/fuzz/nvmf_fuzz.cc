// Arbitrary bytes as the capsules of a host of NVMe over Fabrics: parsed, planned against a namespace, and carried out
// by a controller. Nothing may leave the capsule, the namespace or the buffer.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "input.h"
#include "nvmf/capsule.h"
#include "nvmf/controller.h"
#include "nvmf/io_command.h"
#include "nvmf/target.h"

namespace {

using namespace uroce;
using namespace uroce::nvmf;
using uroce::test::Input;
using uroce::test::require;

constexpr char kNqn[] = "nqn.2024-01.org.example:disks";
constexpr uint64_t kBytes = 64 << 10;

Subsystem disks() {
  std::vector<NamespaceSettings> namespaces;
  namespaces.push_back({.memory_bytes = kBytes});
  return std::move(*open_subsystem({.nqn = kNqn, .namespaces = std::move(namespaces)}));
}

class Log final : public DiscoveryLog {
 public:
  explicit Log(const Target& target) : target_(target) {}
  void read(std::string_view host, uint64_t offset, std::span<std::byte> out) const override {
    target_.discovery_log(host, {.address = "192.0.2.1"}, offset, out);
  }

 private:
  const Target& target_;
};

void check_range(uint64_t offset, uint64_t length) {
  require(offset <= kBytes && length <= kBytes - offset, "a range beyond the namespace");
}

/// A command of an I/O queue, with `behind` it in the capsule.
void run_io(const nvme::Command& command, const Subsystem& subsystem, std::span<const std::byte> behind) {
  auto plan = plan_io(command, subsystem);
  if (!plan) return;
  require(plan->data_bytes <= kTransferBytes, "more data than a buffer holds");
  if (plan->ranges == 0) return check_range(plan->offset, plan->length);
  if (behind.size() < plan->data_bytes) return;
  const auto data = behind.first(plan->data_bytes);
  if (!ranges_fit(data, *plan->target)) return;
  for (uint32_t i = 0; i < plan->ranges; ++i) {
    take_range(data, i, *plan);
    check_range(plan->offset, plan->length);
  }
}

/// One of an admin queue. The buffer has exactly the command's bytes, for the sanitizer to watch.
void run_admin(const nvme::Command& command, Controller& controller, const DiscoveryLog& log) {
  const uint64_t bytes = Controller::admin_data_bytes(command);
  if (bytes > kTransferBytes) return;
  std::vector<std::byte> data(bytes);
  (void)controller.admin(command, data, controller.subsystem().discovery ? &log : nullptr);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, std::size_t size) {
  Input input({bytes, size});
  std::vector<Subsystem> all;
  all.push_back(disks());
  Target target(std::move(all));
  const Subsystem subsystem = disks(), discovery = discovery_subsystem();
  const Log log(target);
  Controller io(1, subsystem, {.nqn = kNqn}, 1000, Nanos(0)), asked(2, discovery, {.nqn = kNqn}, 0, Nanos(0));
  std::shared_ptr<Controller> made;
  for (int64_t now = 0; !input.empty(); ++now) {
    std::vector<std::byte> capsule(input.below(64 + 1100));
    input.fill(capsule);
    const auto command = command_of(capsule);
    require(command.has_value() == (capsule.size() >= sizeof(nvme::Command)), "the size alone decides");
    if (!command) continue;
    const auto behind = std::span<const std::byte>(capsule).subspan(sizeof *command);
    const auto transfer = transfer_of(*command, behind.size());
    if (transfer && transfer->kind == Transfer::Kind::in_capsule) {
      require(transfer->address <= behind.size() && transfer->length <= behind.size() - transfer->address,
              "data beyond the capsule");
    }
    run_io(*command, subsystem, behind);
    run_admin(*command, io, log);
    run_admin(*command, asked, log);
    (void)io.property_set(static_cast<uint8_t>(command->cdw10), command->cdw11, command->cdw12);
    (void)io.property_get(static_cast<uint8_t>(command->cdw10), command->cdw11);
    (void)io.expired(Nanos(now << 30));
    nvme::ConnectData data{};
    std::memcpy(&data, behind.data(), std::min(behind.size(), sizeof data));
    auto joined =
        target.connect(*command, data, static_cast<uint16_t>(command->cdw10 >> 16) & 1, 16, "192.0.2.2", Nanos(now));
    if (joined && made == nullptr) made = joined->controller;
  }
  if (made != nullptr) target.remove(*made, "192.0.2.2");
  return 0;
}
