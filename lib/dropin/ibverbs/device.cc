// The list of devices, and opening one (ibv_get_device_list(3), ibv_open_device(3)).
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>

#include <uroce/daemon.h>

#include "base/no_cancel.h"
#include "dropin/common/descriptor.h"
#include "dropin/ibverbs/events.h"
#include "dropin/ibverbs/fork.h"
#include "dropin/ibverbs/identity.h"
#include "dropin/ibverbs/objects.h"
#include "dropin/ibverbs/validated_calls.h"
#include "dropin/ibverbs/validation.h"

namespace uroce::dropin {

namespace {

template <std::size_t N>
void copy_text(char (&to)[N], const std::string& text) {
  std::snprintf(to, N, "%s", text.c_str());
}

/// Device pointers are valid for the life of the process: applications keep them and compare them from list to list.
class DeviceTable {
 public:
  static DeviceTable& all() {
    static DeviceTable& devices = *new DeviceTable;  // never destroyed: programs make calls until they exit
    return devices;
  }

  ibv_device** list(int* count) {
    const std::lock_guard lock(mutex_);
    auto found = daemon_devices();
    if (!found && found.error().code != ENOENT) return report_null(found.error());
    // Without a daemon the list is empty, which is not an error.
    if (!found) say_once(found.error());
    const std::vector<DeviceInfo> none;
    const auto& infos = found ? *found : none;
    auto** list = static_cast<ibv_device**>(std::calloc(infos.size() + 1, sizeof(ibv_device*)));
    if (list == nullptr) return failed_null(ENOMEM);
    for (std::size_t i = 0; i < infos.size(); ++i) list[i] = get(infos[i], static_cast<int>(i));
    if (count != nullptr) *count = static_cast<int>(infos.size());
    return list;
  }

 private:
  VerbsDevice* get(const DeviceInfo& info, int index) {
    auto& device = by_name_[info.name];
    // Made once: other threads may be reading devices of an earlier list.
    if (device != nullptr && device->guid == guid_of(info.mac)) return device.get();
    if (device == nullptr) device = std::make_unique<VerbsDevice>();
    const std::string verbs_name = "uverbs" + std::to_string(index);
    static const int kOps = 0;
    device->ops = &kOps;
    device->node_type = IBV_NODE_CA;
    device->transport_type = IBV_TRANSPORT_IB;
    copy_text(device->name, info.name);
    copy_text(device->dev_name, verbs_name);
    copy_text(device->dev_path, "/sys/class/infiniband_verbs/" + verbs_name);
    copy_text(device->ibdev_path, "/sys/class/infiniband/" + info.name);
    device->guid = guid_of(info.mac);
    device->index = index;
    return device.get();
  }
  void say_once(const Error& error) {
    if (!said_) report(error);
    said_ = true;
  }

  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<VerbsDevice>> by_name_;
  bool said_ = false;
};

/// The open devices, by the file behind their contexts' cmd_fd. An importer in this process passes a duplicate of it.
class SharedContexts {
 public:
  static SharedContexts& all() {
    static SharedContexts& shared_contexts = *new SharedContexts;  // as DeviceTable
    return shared_contexts;
  }

  void add(int fd, const std::shared_ptr<SharedContext>& shared, ibv_device* device) {
    const std::lock_guard lock(mutex_);
    std::erase_if(open_, [](const auto& entry) { return entry.second.shared.expired(); });
    open_[file_of(fd)] = {shared, device};
  }
  /// Null where `fd` belongs to no open device of this process.
  std::pair<std::shared_ptr<SharedContext>, ibv_device*> find(int fd) {
    const std::lock_guard lock(mutex_);
    const auto found = open_.find(file_of(fd));
    if (found == open_.end()) return {};
    return {found->second.shared.lock(), found->second.device};
  }

 private:
  using File = std::pair<dev_t, ino_t>;
  struct Entry {
    std::weak_ptr<SharedContext> shared;
    ibv_device* device;
  };
  static File file_of(int fd) {
    struct stat status{};
    return fstat(fd, &status) == 0 ? File{status.st_dev, status.st_ino} : File{};
  }
  std::mutex mutex_;
  std::map<File, Entry> open_;
};

/// A context over `shared`. It owns `cmd_fd` from then on, unless this fails.
ibv_context* make_context(const std::shared_ptr<SharedContext>& shared, ibv_device* device, int cmd_fd) {
  const int events = outer_descriptor(shared->api.async_fd());
  if (events < 0) return nullptr;
  auto* made = new VerbsContext(shared);
  ibv_context& context = made->context;
  context.device = device;
  context.cmd_fd = cmd_fd;
  context.async_fd = events;
  context.num_comp_vectors = static_cast<int>(std::max(1u, made->info().engines));
  pthread_mutex_init(&context.mutex, nullptr);
  context.abi_compat = __VERBS_ABI_IS_EXTENDED;
  made->sz = sizeof(verbs_context);
  fill_operations(*made);
  validation::replace_operations(*made);
  return &context;
}

ibv_context* open(ibv_device* device) {
  const NoCancel guard;
  validation::begin();
  auto opened = open_daemon_device(device->name);
  if (!opened) return report_null(opened.error());
  // The file stays empty; it identifies the open device wherever the descriptor is passed.
  const int file = memfd_create("uroce", MFD_CLOEXEC);
  if (file < 0) return nullptr;
  auto shared = std::make_shared<SharedContext>(std::move(*opened));
  ibv_context* context = make_context(shared, device, file);
  if (context == nullptr) {
    close(file);
  } else {
    SharedContexts::all().add(file, shared, device);
  }
  return context;
}

}  // namespace

void ContextRef::release(VerbsContext* context) {
  if (--context->references != 0) return;
  pthread_mutex_destroy(&context->context.mutex);
  if (validation::on()) {
    validation::bury<verbs_context>(context);  // destroyed objects lead here
  } else {
    delete context;
  }
}

}  // namespace uroce::dropin

using namespace uroce::dropin;

extern "C" {

ibv_device** ibv_get_device_list(int* num_devices) {
  if (num_devices != nullptr) *num_devices = 0;
  fork_init_from_environment();
  return DeviceTable::all().list(num_devices);
}

void ibv_free_device_list(ibv_device** list) { std::free(list); }

const char* ibv_get_device_name(ibv_device* device) { return device->name; }

int ibv_get_device_index(ibv_device* device) { return static_cast<VerbsDevice*>(device)->index; }

__be64 ibv_get_device_guid(ibv_device* device) { return htobe64(static_cast<VerbsDevice*>(device)->guid); }

ibv_context* ibv_open_device(ibv_device* device) { return open(device); }

int ibv_close_device(ibv_context* context) {
  const uroce::NoCancel guard;
  close(context->async_fd);
  close(context->cmd_fd);
  context->async_fd = context->cmd_fd = -1;
  ContextRef::release(of(context));
  return 0;
}

/// Only in the process that opened the device, whose memory holds its queues.
ibv_context* ibv_import_device(int cmd_fd) {
  const auto [shared, device] = SharedContexts::all().find(cmd_fd);
  return shared != nullptr ? make_context(shared, device, cmd_fd)
                           : refuse_null(EOPNOTSUPP, "ibv_import_device(): only the process that opened a device may");
}

}  // extern "C"
