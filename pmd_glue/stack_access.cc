#include "pmd_glue/stack_access.h"

#include <fmt/format.h>
#include <rte_lcore.h>
#include <sched.h>

#include <cerrno>

#include "pmd_glue/capture.h"
#include "pmd_glue/stack_impl.h"

namespace uroce::glue {

Result<Stack> StackAccess::start(const std::vector<std::string>& args, const StackOptions& options,
                                 AskPredecessor ask) {
  auto impl = std::make_unique<Stack::Impl>();
  if (auto ok = impl->set_up(args, options, std::move(ask)); !ok) return std::unexpected(ok.error());
  return Stack(std::move(impl));
}

void StackAccess::awaken(Stack& stack) { stack.impl_->awaken(); }

Result<std::vector<message::DeviceFacts>> StackAccess::facts(const Stack& stack) { return stack.impl_->facts(); }

message::Belongings StackAccess::lend(const Stack& stack) { return stack.impl_->lend(); }

void StackAccess::freeze(Stack& stack) { stack.impl_->freeze(); }

void StackAccess::thaw(Stack& stack) { stack.impl_->thaw(); }

void StackAccess::abandon(Stack& stack) { stack.impl_->abandon(); }

std::vector<std::shared_ptr<control::Device>> StackAccess::devices(const Stack& stack) {
  std::vector<std::shared_ptr<control::Device>> out;
  for (const auto& unit : stack.impl_->units) out.push_back(unit.device);
  return out;
}

Result<cm::Manager*> StackAccess::connections(Stack& stack) {
  if (stack.embedded()) return stack.impl_->connections();
  // The manager's thread inherits these CPUs.
  cpu_set_t before;
  const bool known = sched_getaffinity(0, sizeof before, &before) == 0;
  leave_engines_cpus(stack);
  auto manager = stack.impl_->connections();
  if (known) sched_setaffinity(0, sizeof before, &before);
  return manager;
}

std::vector<std::pair<std::string, CounterList>> StackAccess::counters(const Stack& stack) {
  std::vector<std::pair<std::string, CounterList>> out;
  for (const auto& unit : stack.impl_->units) {
    out.emplace_back(unit.device->config().name, stack.impl_->counters_of(unit));
  }
  return out;
}

CounterList StackAccess::port_counters(const Stack& stack, std::string_view device) {
  for (const auto& unit : stack.impl_->units) {
    if (unit.device->config().name == device) return stack.impl_->port_counters_of(unit);
  }
  return {};
}

std::vector<uint64_t> StackAccess::rounds(const Stack& stack) {
  std::vector<uint64_t> out;
  for (const auto& worker : stack.impl_->workers()) out.push_back(worker->load().rounds.get());
  return out;
}

std::vector<message::EngineRow> StackAccess::engines(const Stack& stack) {
  std::vector<message::EngineRow> rows;
  for (const auto& worker : stack.impl_->workers()) {
    const WorkerLoad& load = worker->load();
    transport::Traffic traffic;
    for (const auto& queue : worker->queues()) traffic += queue->engine().traffic().sum();
    uint64_t waiting_frames = 0, port_frames = 0;
    for (const auto& queue : worker->queues()) {
      waiting_frames += queue->waiting_frames();
      port_frames += queue->counters().received.get();
    }
    rows.push_back({.engine = static_cast<uint32_t>(rows.size()),
                    .values = {{"busy_ns", load.busy_ns.get()},
                               {"rounds", load.rounds.get()},
                               {"port_frames", port_frames},
                               {"rx_packets", traffic.rx_packets},
                               {"rx_bytes", traffic.rx_bytes},
                               {"tx_packets", traffic.tx_packets},
                               {"tx_bytes", traffic.tx_bytes},
                               {"waiting_qps", load.waiting_qps.load(std::memory_order_relaxed)},
                               {"waiting_frames", waiting_frames},
                               {"parked_frames", load.parked_frames.load(std::memory_order_relaxed)}}});
  }
  return rows;
}

std::vector<std::string> StackAccess::drivers(const Stack& stack) {
  std::vector<std::string> out;
  for (const auto& unit : stack.impl_->units) out.push_back(unit.port->driver());
  return out;
}

Result<std::unique_ptr<service::Capture>> StackAccess::capture(const Stack& stack, std::string_view device) {
  for (const auto& unit : stack.impl_->units) {
    if (unit.device->config().name != device) continue;
    auto capture = Capture::start(*unit.port, stack.impl_->workers());
    if (!capture) return std::unexpected(capture.error());
    return std::unique_ptr<service::Capture>(std::move(*capture));
  }
  return fail(ENODEV, fmt::format("unknown device '{}'; `uroce devices` lists them", device.substr(0, 64)));
}

namespace {

class DeskFaults final : public service::Faults {
 public:
  explicit DeskFaults(FaultDesk& desk) : desk_(desk) {}

  std::optional<service::CallFault> on_call(message::Op op, std::string_view device, std::string_view command,
                                            int32_t pid) override {
    const auto fate = desk_.fate_of({.op = op, .device = device, .command = command, .pid = pid});
    if (!fate) return std::nullopt;
    return service::CallFault{.delay = fate->delay, .error = fate->error, .text = fate->text};
  }
  std::vector<message::FaultRow> list() const override {
    std::vector<message::FaultRow> rows;
    for (const auto& one : desk_.list()) {
      rows.push_back({.number = one->number,
                      .seed = one->seed,
                      .chosen = one->chosen.load(std::memory_order_relaxed),
                      .hits = one->hits.load(std::memory_order_relaxed),
                      .overflow = one->overflow.load(std::memory_order_relaxed),
                      .text = one->rule.text});
    }
    return rows;
  }
  Result<message::AddedFaults> add(std::string_view rules, std::string_view source) override {
    const auto added = desk_.add(rules, source);
    if (!added) return std::unexpected(added.error());
    if (added->empty()) return message::AddedFaults{};
    return message::AddedFaults{.first = added->front()->number, .last = added->back()->number};
  }
  Result<void> clear(uint32_t number) override {
    return desk_.remove(number == 0 ? std::nullopt : std::optional(number));
  }

 private:
  FaultDesk& desk_;
};

}  // namespace

std::shared_ptr<service::Faults> StackAccess::faults(const Stack& stack) {
  return std::make_shared<DeskFaults>(stack.impl_->faults());
}

Result<void> StackAccess::set_addresses(Stack& stack, const StackOptions& options) {
  return stack.impl_->set_addresses(options);
}

void StackAccess::leave_engines_cpus(const Stack& stack) {
  stack.impl_->eal().unpin();
  cpu_set_t all;
  if (sched_getaffinity(0, sizeof all, &all) != 0) return;
  cpu_set_t rest = all;
  for (const unsigned lcore : stack.impl_->eal().workers()) {
    const cpu_set_t engines = rte_lcore_cpuset(lcore);
    cpu_set_t common;
    CPU_AND(&common, &rest, &engines);
    CPU_XOR(&rest, &rest, &common);
  }
  if (CPU_COUNT(&rest) > 0) sched_setaffinity(0, sizeof rest, &rest);
}

void StackAccess::return_to_main_lcore() {
  const cpu_set_t cpus = rte_lcore_cpuset(rte_get_main_lcore());
  sched_setaffinity(0, sizeof cpus, &cpus);
}

}  // namespace uroce::glue
