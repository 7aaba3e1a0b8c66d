#include "verbs_library.h"

#include <dlfcn.h>
#include <endian.h>

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
}

int VerbsLibrary::count() const {
  int devices = 0;
  ibv_device** list = get_list_(&devices);
  if (list == nullptr) return -1;
  free_list_(list);
  return devices;
}

std::vector<DeviceView> VerbsLibrary::devices() const {
  std::vector<DeviceView> views;
  ibv_device** list = get_list_(nullptr);
  if (list == nullptr) return views;
  for (ibv_device** at = list; *at != nullptr; ++at) {
    ibv_context* context = open_(*at);
    if (context == nullptr) continue;
    views.push_back(view(*at, context));
    close_(context);
  }
  free_list_(list);
  return views;
}

DeviceView VerbsLibrary::view(ibv_device* device, ibv_context* context) const {
  DeviceView seen;
  seen.name = device->name;
  seen.verbs_name = device->dev_name;
  ibv_device_attr attr{};
  query_device_(context, &attr);
  seen.guid = be64toh(attr.node_guid);
  seen.firmware = attr.fw_ver;
  seen.vendor_id = attr.vendor_id;
  seen.part_id = attr.vendor_part_id;
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

}  // namespace uroce::run
