#include "client/in_process_cm.h"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <poll.h>

#include <fmt/format.h>

#include "client/cm_impl.h"
#include "client/queue_pair.h"
#include "control/qp.h"

namespace uroce::client {
namespace {

class InProcessCm final : public CmImpl {
 public:
  // A program that has the port to itself may have its port numbers, too.
  InProcessCm(cm::Manager& manager, std::shared_ptr<control::Device> device)
      : user_(manager.open({.privileged_ports = true})), device_(std::move(device)) {}

  message::CmCalls& calls() override { return *user_; }
  /// The descriptor is a copy, because the manager closes its own when it ends.
  Result<NewChannel> create_channel() override {
    auto made = user_->create_channel();
    if (!made) return std::unexpected(made.error());
    message::Fd fd(fcntl(made->second, F_DUPFD_CLOEXEC, 0));
    if (fd) return NewChannel{made->first, std::move(fd), user_->changes(made->first)};
    const int code = errno;
    (void)user_->destroy_channel(made->first);
    return fail(code, std::string("cannot create an event channel: ") + std::strerror(code) +
                          "; raise the limit of descriptors (ulimit -n)");
  }
  Result<void> connect(uint32_t id, const CmParam& param, const QpImpl& qp, bool /*welcome*/) override {
    const auto its = qp.in_process();
    return its != nullptr ? user_->connect_qp(id, param, its) : elsewhere(qp);
  }
  Result<void> accept(uint32_t id, const CmParam& param, const QpImpl& qp, bool /*welcome*/) override {
    const auto its = qp.in_process();
    return its != nullptr ? user_->accept_qp(id, param, its) : elsewhere(qp);
  }
  Result<void> disconnect(uint32_t id, const QpImpl& qp, bool /*welcome*/) override {
    const auto its = qp.in_process();
    if (its == nullptr) return elsewhere(qp);
    if (auto moved = its->to_error(); !moved) return moved;
    return user_->disconnect(id);
  }
  bool mine() const override { return true; }
  message::Wake sleep(int fd, std::chrono::nanoseconds timeout) override {
    if (!device_->wait_readable(fd, timeout)) return message::Wake::timeout;
    pollfd now{.fd = fd, .events = POLLIN, .revents = 0};
    const bool there = poll(&now, 1, 0) != 1 || (now.revents & POLLIN) != 0;
    return there ? message::Wake::readable : message::Wake::lost;
  }

 private:
  static Result<void> elsewhere(const QpImpl& qp) {
    return fail(EINVAL,
                fmt::format("queue pair {:#x} is not of a device of this process; use one of the stack that has "
                            "the connection manager",
                            qp.qpn()));
  }

  const std::unique_ptr<cm::ManagerUser> user_;
  const std::shared_ptr<control::Device> device_;
};

}  // namespace

std::shared_ptr<CmImpl> make_in_process_cm(cm::Manager& manager, std::shared_ptr<control::Device> device) {
  return std::make_shared<InProcessCm>(manager, std::move(device));
}

}  // namespace uroce::client
