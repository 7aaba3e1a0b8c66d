// An object of a client in the daemon.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "client/device_link.h"
#include "client/object.h"
#include "message/connection.h"

namespace uroce::client {

/// An object in the daemon. The last reference destroys it; objects that use it hold a reference.
class DaemonObject {
 public:
  DaemonObject(std::shared_ptr<DeviceLink> link, message::Kind kind, uint32_t id, std::vector<Object> uses = {})
      : link_(std::move(link)), kind_(kind), id_(id), uses_(std::move(uses)) {}
  ~DaemonObject() {
    if (!link_->mine()) return;
    const message::Destroy request{kind_, id_};
    // Nothing of a program's is used through these, so it need not know when they are gone.
    if (kind_ == message::Kind::pd || kind_ == message::Kind::address_handle) {
      (void)link_->post(message::Op::destroy, request);
    } else {
      (void)link_->call<message::Empty>(message::Op::destroy, request);
    }
  }
  DaemonObject(const DaemonObject&) = delete;
  DaemonObject& operator=(const DaemonObject&) = delete;
  uint32_t id() const { return id_; }

  message::Fd fd{};  ///< a channel's

 private:
  std::shared_ptr<DeviceLink> link_;
  message::Kind kind_;
  uint32_t id_;
  std::vector<Object> uses_;
};

inline uint32_t id_of(const Object& object) {
  return object ? static_cast<const DaemonObject*>(object.get())->id() : 0;
}

}  // namespace uroce::client
