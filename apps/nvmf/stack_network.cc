#include "nvmf/stack_network.h"

#include <utility>

#include "pmd_glue/stack_access.h"

namespace uroce::nvmf {

namespace {

class StackNetwork final : public Network {
 public:
  StackNetwork(Stack stack, ConnectionManager connections)
      : stack_(std::move(stack)), connections_(std::move(connections)) {}

  ConnectionManager& connections() override { return connections_; }
  Result<Context> device(const std::string& name) override { return stack_.open(name); }
  uint32_t reactors() const override { return stack_.engines(); }
  int engine_of(uint32_t reactor) const override { return static_cast<int>(reactor); }
  Result<void> start_loop(uint32_t reactor, const std::function<void()>& loop) override {
    return stack_.start_loop(reactor, loop);
  }
  std::vector<std::string> drivers() const override { return glue::StackAccess::drivers(stack_); }
  void join_loops() override { stack_.join_loops(); }
  bool poll() override { return stack_.poll(); }
  void idle(std::chrono::nanoseconds limit) override { stack_.idle(limit); }
  bool wakes() const override { return true; }
  void wake(uint32_t reactor) override { stack_.wake(reactor); }

 private:
  Stack stack_;
  ConnectionManager connections_;
};

}  // namespace

Result<std::unique_ptr<Network>> start_stack_network(const std::vector<std::string>& eal, StackOptions options) {
  options.own_loops = true;
  auto stack = Stack::start(eal, options);
  if (!stack) return std::unexpected(stack.error());
  auto connections = ConnectionManager::open(*stack);
  if (!connections) return std::unexpected(connections.error());
  return std::make_unique<StackNetwork>(std::move(*stack), std::move(*connections));
}

}  // namespace uroce::nvmf
