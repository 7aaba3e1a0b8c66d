#include "client/device_link.h"

#include <cerrno>
#include <string>

namespace uroce::client {

Result<DeviceLink::Opened> DeviceLink::open(const std::string& device, const DaemonOptions& options) {
  auto program = DaemonLink::of_program(options);
  if (!program) return std::unexpected(program.error());
  const auto number = (*program)->take_number();
  if (!number) {
    return fail(EMFILE, "this program has opened " + std::to_string(message::kMaxDevices) +
                            " devices of the uroce daemon, which is the limit; close some");
  }
  Opened out{.link = std::shared_ptr<DeviceLink>(new DeviceLink(std::move(*program), *number)), .reply = {}, .fds = {}};
  auto reply =
      out.link->call<message::OpenDeviceReply>(message::Op::open_device, message::OpenDevice{device}, {}, &out.fds);
  if (!reply) return std::unexpected(reply.error());
  out.link->open_ = true;
  out.reply = std::move(*reply);
  return out;
}

DeviceLink::~DeviceLink() {
  // The number is free for a later call only, which the daemon handles after this one.
  if (!mine()) return;
  if (open_) (void)post(message::Op::close_device, message::Empty{});
  program_->give_back_number(slot_.number);
}

}  // namespace uroce::client
