// The verbs devices below the ids: opened once, each with the protection domain that ids use by default.
#pragma once

#include <infiniband/verbs.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <uroce/error.h>

namespace uroce::dropin::rdmacm {

/// An opened device. It stays open: programs keep the contexts that rdma_get_devices(3) gave them.
struct OpenDevice {
  ibv_context* verbs = nullptr;
  ibv_pd* pd = nullptr;  ///< there while ids use the device
  int users = 0;
  uint8_t max_initiator_depth = 0;
  uint8_t max_responder_resources = 0;
  int max_qp_wr = 0;
};

class OpenDevices {
 public:
  /// Any thread. Errors: ENODEV (no device of that name), and what opening and allocating give.
  Result<OpenDevice*> use(const std::string& name);
  void leave(OpenDevice* device);
  /// All that there are, opened. Errors: ENODEV (none).
  Result<std::vector<OpenDevice*>> all();

 private:
  Result<OpenDevice*> open(ibv_device* device);

  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<OpenDevice>> by_name_;
};

}  // namespace uroce::dropin::rdmacm
