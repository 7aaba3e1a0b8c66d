#include "dropin/rdmacm/devices.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>

namespace uroce::dropin::rdmacm {

namespace {

/// Owns the list of ibv_get_device_list(3).
class DeviceList {
 public:
  DeviceList() : list_(ibv_get_device_list(&count_)) {}
  DeviceList(const DeviceList&) = delete;
  DeviceList& operator=(const DeviceList&) = delete;
  ~DeviceList() {
    if (list_ != nullptr) ibv_free_device_list(list_);
  }

  ibv_device* const* begin() const { return list_; }
  ibv_device* const* end() const { return list_ + (list_ != nullptr ? count_ : 0); }

 private:
  int count_ = 0;
  ibv_device** list_;
};

uint8_t to_byte(int value) { return static_cast<uint8_t>(std::clamp(value, 0, 255)); }

}  // namespace

Result<OpenDevice*> OpenDevices::open(ibv_device* device) {
  auto& known = by_name_[ibv_get_device_name(device)];
  if (known != nullptr) return known.get();
  auto made = std::make_unique<OpenDevice>();
  made->verbs = ibv_open_device(device);
  if (made->verbs == nullptr) {
    return fail(errno, std::string("cannot open device ") + ibv_get_device_name(device));
  }
  ibv_device_attr attr{};
  if (const int error = ibv_query_device(made->verbs, &attr); error != 0) {
    ibv_close_device(made->verbs);
    return fail(error, std::string("cannot query the attributes of device ") + ibv_get_device_name(device));
  }
  made->max_initiator_depth = to_byte(attr.max_qp_init_rd_atom);
  made->max_responder_resources = to_byte(attr.max_qp_rd_atom);
  made->max_qp_wr = attr.max_qp_wr;
  known = std::move(made);
  return known.get();
}

Result<OpenDevice*> OpenDevices::use(const std::string& name) {
  const std::lock_guard lock(mutex_);
  Result<OpenDevice*> device = fail(ENODEV, "there is no device " + name + "; `uroce devices` lists them");
  if (const auto known = by_name_.find(name); known != by_name_.end() && known->second != nullptr) {
    device = known->second.get();
  } else {
    const DeviceList list;
    const auto found = std::ranges::find_if(list, [&](ibv_device* each) { return name == ibv_get_device_name(each); });
    if (found != list.end()) device = open(*found);
  }
  if (!device) return device;
  OpenDevice& used = **device;
  if (used.pd == nullptr) used.pd = ibv_alloc_pd(used.verbs);
  if (used.pd == nullptr) {
    return fail(errno, "cannot allocate a protection domain on device " + name);
  }
  ++used.users;
  return device;
}

void OpenDevices::leave(OpenDevice* device) {
  const std::lock_guard lock(mutex_);
  if (--device->users != 0) return;
  // When the application's objects still use a domain, keep it for the next id.
  if (device->xrcd != nullptr && ibv_close_xrcd(device->xrcd) == 0) device->xrcd = nullptr;
  if (ibv_dealloc_pd(device->pd) == 0) device->pd = nullptr;
}

ibv_xrcd* OpenDevices::xrc_domain(OpenDevice& device) {
  const std::lock_guard lock(mutex_);
  if (device.xrcd != nullptr) return device.xrcd;
  ibv_xrcd_init_attr attr{};
  attr.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  attr.fd = -1;
  attr.oflags = O_CREAT;
  return device.xrcd = ibv_open_xrcd(device.verbs, &attr);
}

Result<std::vector<OpenDevice*>> OpenDevices::all() {
  const std::lock_guard lock(mutex_);
  std::vector<OpenDevice*> out;
  for (ibv_device* each : DeviceList()) {
    if (auto device = open(each)) out.push_back(*device);
  }
  if (out.empty()) return fail(ENODEV, "there are no devices; start uroced, or set UROCE_SOCKET to its socket");
  return out;
}

}  // namespace uroce::dropin::rdmacm
