#include "verbs_library.h"

#include <dlfcn.h>
#include <endian.h>
#include <fcntl.h>

#include <cerrno>
#include <stdexcept>

namespace uroce::run {

namespace {

template <class Function>
void look_up(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr) throw std::runtime_error(dlerror());
}

}  // namespace

VerbsLibrary::VerbsLibrary(const std::filesystem::path& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error(dlerror());
  look_up(library, "ibv_get_device_list", get_list_);
  look_up(library, "ibv_free_device_list", free_list_);
  look_up(library, "ibv_open_device", open_);
  look_up(library, "ibv_close_device", close_);
  look_up(library, "ibv_query_device", query_device_);
  look_up(library, "ibv_query_gid", query_gid_);
  look_up(library, "ibv_get_async_event", get_async_event_);
  look_up(library, "ibv_ack_async_event", ack_async_event_);
}

int VerbsLibrary::count() const {
  int devices = 0;
  ibv_device** list = get_list_(&devices);
  if (list == nullptr) return -1;
  free_list_(list);
  return devices;
}

DeviceView VerbsLibrary::view(ibv_context* context) const {
  DeviceView seen;
  seen.name = context->device->name;
  seen.verbs_name = context->device->dev_name;
  ibv_device_attr attr{};
  query_device_(context, &attr);
  seen.guid = be64toh(attr.node_guid);
  seen.firmware = attr.fw_ver;
  seen.vendor_id = attr.vendor_id;
  seen.part_id = attr.vendor_part_id;
  seen.capabilities = attr.device_cap_flags;
  if (verbs_context* extended = verbs_get_ctx(context)) {
    extended->query_port(context, 1, &seen.port, sizeof(seen.port));
  }
  for (int i = 0; i < seen.port.gid_tbl_len; ++i) {
    ibv_gid gid{};
    query_gid_(context, 1, i, &gid);
    seen.gids.push_back(gid);
  }
  return seen;
}

OpenDevices::OpenDevices(const VerbsLibrary& library) : library_(library) {
  ibv_device** list = library_.get_list_(nullptr);
  if (list == nullptr) return;
  for (ibv_device** at = list; *at != nullptr; ++at) {
    ibv_context* context = library_.open_(*at);
    if (context == nullptr) continue;
    fcntl(context->async_fd, F_SETFL, fcntl(context->async_fd, F_GETFL) | O_NONBLOCK);
    contexts_.push_back(context);
  }
  library_.free_list_(list);
}

OpenDevices::~OpenDevices() {
  for (ibv_context* context : contexts_) library_.close_(context);
}

std::vector<DeviceView> OpenDevices::views() const {
  std::vector<DeviceView> views;
  for (ibv_context* context : contexts_) views.push_back(library_.view(context));
  return views;
}

std::vector<int> OpenDevices::event_fds() const {
  std::vector<int> fds;
  for (const ibv_context* context : contexts_) fds.push_back(context->async_fd);
  return fds;
}

bool OpenDevices::take_events() {
  for (ibv_context* context : contexts_) {
    ibv_async_event event{};
    while (library_.get_async_event_(context, &event) == 0) library_.ack_async_event_(&event);
    if (errno != EAGAIN) return false;
  }
  return true;
}

}  // namespace uroce::run
