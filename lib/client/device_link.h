// One opened device on a program's connection to the daemon.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <uroce/daemon_options.h>
#include <uroce/error.h>

#include "client/daemon_link.h"
#include "message/device_messages.h"

namespace uroce::client {

/// The device's objects hold it; when the last of them is gone, the device is closed. Any thread.
class DeviceLink {
 public:
  struct Opened {
    std::shared_ptr<DeviceLink> link;
    message::OpenDeviceReply reply;
    std::vector<message::Fd> fds;  ///< of the reply
  };
  /// Errors: those of open_daemon_device().
  static Result<Opened> open(const std::string& device, const DaemonOptions& options);
  ~DeviceLink();
  DeviceLink(const DeviceLink&) = delete;
  DeviceLink& operator=(const DeviceLink&) = delete;

  /// See DaemonLink::call() and post().
  template <class Reply, class Request>
  Result<Reply> call(message::Op op, const Request& request, std::span<const int> fds = {},
                     std::vector<message::Fd>* received = nullptr) {
    return program_->call<Reply>(op, request, fds, received, &slot_);
  }
  template <class Request>
  Result<void> post(message::Op op, const Request& request) {
    return program_->post(op, request, &slot_);
  }
  /// See DaemonLink::memory().
  Result<std::byte*> memory(const message::Place& place) { return program_->memory(slot_, place); }
  /// False in a child of fork(): the device belongs to the parent.
  bool mine() const { return program_->mine(); }
  /// Held while a registration is sent in several messages: the daemon prepares one at a time.
  std::mutex& preparing() { return preparing_; }
  bool lost() { return program_->lost(); }
  void mark_lost() { program_->mark_lost(); }

  /// Its number on the connection.
  const DeviceSlot& slot() const { return slot_; }
  const std::shared_ptr<DaemonLink>& program() const { return program_; }

 private:
  DeviceLink(std::shared_ptr<DaemonLink> program, uint32_t number) : program_(std::move(program)) {
    slot_.number = number;
  }

  const std::shared_ptr<DaemonLink> program_;
  DeviceSlot slot_;
  bool open_ = false;
  std::mutex preparing_;
};

}  // namespace uroce::client
