#include "nvmf/stack_network.h"

#include <thread>
#include <utility>

namespace uroce::nvmf {

namespace {

class StackNetwork final : public Network {
 public:
  StackNetwork(Stack stack, ConnectionManager connections)
      : stack_(std::move(stack)), connections_(std::move(connections)) {}

  ConnectionManager& connections() override { return connections_; }
  Result<Context> device(const std::string& name) override { return stack_.open(name); }
  bool poll() override { return stack_.poll(); }
  void idle(std::chrono::nanoseconds limit) override {
    if (stack_.embedded()) return stack_.idle(limit);
    std::this_thread::sleep_for(limit);
  }
  bool wakes() const override { return stack_.embedded(); }

 private:
  Stack stack_;
  ConnectionManager connections_;
};

}  // namespace

Result<std::unique_ptr<Network>> start_stack_network(const std::vector<std::string>& eal, const StackOptions& options) {
  auto stack = Stack::start(eal, options);
  if (!stack) return std::unexpected(stack.error());
  auto connections = ConnectionManager::open(*stack);
  if (!connections) return std::unexpected(connections.error());
  return std::make_unique<StackNetwork>(std::move(*stack), std::move(*connections));
}

}  // namespace uroce::nvmf
