// The verbs devices that ids use. Each is opened once, with the default protection domain of its ids.
#pragma once

#include <infiniband/verbs.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <uroce/error.h>

namespace uroce::dropin::rdmacm {

/// An opened device. It stays open, because programs keep the contexts that rdma_get_devices(3) returns.
struct OpenDevice {
  ibv_context* verbs = nullptr;
  ibv_pd* pd = nullptr;      ///< exists while ids use the device
  ibv_xrcd* xrcd = nullptr;  ///< the ids' default, from its first use for as long
  int users = 0;
  uint8_t max_initiator_depth = 0;
  uint8_t max_responder_resources = 0;
  int max_qp_wr = 0;
};

class OpenDevices {
 public:
  /// Any thread. Errors: ENODEV (no device of that name), and those of opening it and of ibv_alloc_pd(3).
  Result<OpenDevice*> use(const std::string& name);
  void leave(OpenDevice* device);
  /// The device's default XRC domain, which no other process shares. `device` is in use. Null with errno.
  ibv_xrcd* xrc_domain(OpenDevice& device);
  /// Opens all devices. Errors: ENODEV (none).
  Result<std::vector<OpenDevice*>> all();

 private:
  Result<OpenDevice*> open(ibv_device* device);

  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<OpenDevice>> by_name_;
};

}  // namespace uroce::dropin::rdmacm
